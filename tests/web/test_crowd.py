"""Whoever holds many connections, or long ones, keeps nobody else from asking."""

import logging
import socket
import threading
import time
from contextlib import ExitStack, suppress
from http.client import HTTPResponse

import httpx
import pytest

from ckptd.web import access, connections, responses
from ckptd.web.access import AccessRules
from ckptd.web.server import WebServer
from demo.patience import allow
from support.prometheus_server import wait_for
from web.conftest import METRICS
from web.test_server import Hanging

MOST = 50  # instead of 200: less to connect, and nothing else is different
CROWD = 2 * MOST
ASKED = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_ASKED = ASKED[:-4]
PAGE = b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", MOST)
    record = Hanging()
    server = WebServer("127.0.0.1:0", METRICS, record, AccessRules())
    server.record = record
    yield server
    record.release.set()
    server.close()


@pytest.fixture
def connect(server):
    """Opens connections that say something and stay open until the test ends."""
    with ExitStack() as stack:

        def open_one(said=b""):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=allow(20)))
            connection.sendall(said)
            return connection

        yield open_one


def scrape(server):
    return httpx.get(f"http://127.0.0.1:{server.port}/metrics", timeout=allow(20)).status_code


def held(server):
    return list(server._server.server_state.connections)  # at once: the server's thread changes the set


def send_for_ever(send, said, pause=0.0):
    while True:
        send(said)
        threading.Event().wait(pause)


def heard(connection, said):
    """Return a connection once it has been answered, if it asked: one that is being answered makes no room."""
    assert said != ASKED or read_status(connection) == 200
    return connection


def read_status(connection):
    """Read one answer to its end."""
    response = HTTPResponse(connection)
    response.begin()
    assert response.read()
    return response.status


def is_hung_up_on(connection):
    """Whether a connection ends, after the answers that it did not take yet."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("said", [b"", HALF_ASKED, ASKED], ids=["silent", "half asked", "kept after an answer"])
def test_idle_connections_make_room_for_who_asks_the_longest_idle_first(server, connect, said):
    first, *_, last = [heard(connect(said), said) for _ in range(CROWD)]
    assert scrape(server) == 200
    assert len(held(server)) <= MOST
    last.sendall(HALF_ASKED[len(said) :] + b"\r\n\r\n" if said != ASKED else ASKED)
    assert read_status(last) == 200
    assert is_hung_up_on(first)


def test_an_answer_that_is_being_made_is_not_broken_off_for_others(server, connect):
    waiting = connect(PAGE)
    assert server.record.is_asked.wait(allow(20))
    for _ in range(CROWD):
        connect()
    assert scrape(server) == 200
    server.record.release.set()
    assert b"HTTP/1.1" in waiting.recv(65536)


def test_who_does_not_take_their_answers_makes_room_too(server, connect):
    slow = connect()
    slow.setblocking(False)
    with pytest.raises(BlockingIOError):
        send_for_ever(slow.send, b"GET /static/style.css HTTP/1.1\r\nHost: localhost\r\n\r\n")
    wait_for("the server to wait for its reader", lambda: any(each.flow.write_paused for each in held(server)))
    for _ in range(CROWD):
        connect()
    assert scrape(server) == 200
    assert not any(each.flow.write_paused for each in held(server))


def test_who_does_not_finish_a_request_is_hung_up_on(server, connect, monkeypatch):
    monkeypatch.setattr(connections, "SECONDS_TO_ASK", 0.5)
    silent, dripping, kept = connect(), connect(), connect(ASKED)
    assert b"200 OK" in kept.recv(65536)
    assert is_hung_up_on(silent)
    with pytest.raises(OSError, match=r"reset|[Bb]roken"):
        send_for_ever(dripping.sendall, b"G", pause=0.01)
    kept.sendall(HALF_ASKED)
    assert is_hung_up_on(kept)


def test_pages_that_wait_have_an_end_and_scrapes_none(server, connect, monkeypatch):
    monkeypatch.setattr(responses, "MOST_WAITING", 5)
    for _ in range(5):
        connect(PAGE)
    wait_for("five to wait", lambda: sum(not each.is_idle for each in held(server)) == 5)
    refused = httpx.get(f"http://127.0.0.1:{server.port}/api/v1/jobs", timeout=allow(20))
    assert (refused.status_code, refused.json()) == (503, {"error": "Too many concurrent requests; try again soon."})
    assert scrape(server) == 200
    server.record.release.set()
    wait_for("them to be answered", lambda: all(each.is_idle for each in held(server)))
    assert b" 503 " not in connect(PAGE).recv(65536)


def count_answers(connection, most=10_000):
    """Count a connection's answers, until there are as many as expected, it is closed, or nothing comes for long."""
    said = b""
    with suppress(OSError):
        while said.count(b"HTTP/1.1 ") < most and (more := connection.recv(65536)):
            said += more
    return said.count(b"HTTP/1.1 ")


def test_who_asks_without_a_pause_gets_a_share_of_the_answers(server, connect, monkeypatch):
    monkeypatch.setattr(connections, "ANSWERS_A_SECOND", 20)
    pipelining = [connect(200 * ASKED) for _ in range(5)]
    began = time.monotonic()
    time.sleep(2)
    for connection in pipelining:
        connection.settimeout(0.01)
    counted = [count_answers(connection) for connection in pipelining]
    saved_up = 20 + 2 * len(pipelining)  # a second's share, and each one's first answer and the one that is under way
    assert sum(counted) <= 20 * (time.monotonic() - began) + saved_up
    assert min(counted) > 0


def test_who_has_to_wait_for_a_share_gets_every_answer(server, connect, monkeypatch):
    monkeypatch.setattr(connections, "ANSWERS_A_SECOND", 20)
    monkeypatch.setattr(connections, "SECONDS_TO_ASK", allow(1))
    assert count_answers(connect(40 * ASKED), 40) == 40


def test_whose_a_connection_is_is_read_once(server, connect, monkeypatch):
    read = []
    monkeypatch.setattr(access, "read_peer_uid", lambda client, server: read.append(client))
    connection = connect(3 * PAGE)
    server.record.release.set()
    assert count_answers(connection, 3) == 3
    assert read == [connection.getsockname()]


def test_passwords_that_wait_to_be_tried_have_an_end(guarded, record, web_config, monkeypatch):
    monkeypatch.setattr(responses, "MOST_WAITING", 0)
    for path in ("/metrics", "/"):
        assert httpx.get(guarded + path, auth=("olga", "never said before")).status_code == 503


def test_requests_that_are_none_write_no_log(server, connect, caplog):
    caplog.set_level(logging.DEBUG)
    assert b" 400 " in connect(b"no request\r\n\r\n").recv(65536)
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []
