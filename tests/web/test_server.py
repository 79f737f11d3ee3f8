import socket
import threading
import time

import httpx
import pytest

from ckptd.errors import CkptdError
from ckptd.web import documents
from ckptd.web.access import AccessRules
from ckptd.web.record import Reader
from ckptd.web.server import ListenError, WebServer
from web import samples
from web.conftest import METRICS


class Hanging:
    """A record whose database never answers, until it is released."""

    def __init__(self):
        self.is_asked = threading.Event()
        self.release = threading.Event()

    def list_jobs(self, now):
        self.is_asked.set()
        self.release.wait(60)
        return ()

    def read_flags(self, cluster=None, *, include_resolved=False, run=None):
        return ()

    def read_status(self):
        return ()


class Failing(Hanging):
    """A record that answers once."""

    def list_jobs(self, now):
        if self.is_asked.is_set():
            raise CkptdError("password=secret in the address")
        self.is_asked.set()
        return ()


def test_wishes_that_are_not_granted_are_told_with_their_run(record):
    reader = Reader(record, lambda key: (f"A wish about {key.directory}",))
    found = documents.run(reader.read_run(samples.ALICE), samples.NOW)
    assert found["doubts"] == [f"A wish about {samples.ALICE.directory}"]


def listening(record):
    server = WebServer("127.0.0.1:0", METRICS, record, AccessRules())
    return server, f"http://127.0.0.1:{server.port}"


def ask_quietly(address):
    try:
        httpx.get(address, timeout=60)
    except httpx.HTTPError:
        return


def test_metrics_and_the_end_wait_for_no_database():
    record = Hanging()
    server, address = listening(record)
    askers = [threading.Thread(target=ask_quietly, args=[address + "/api/v1/jobs"]) for _ in range(8)]
    try:
        for asker in askers:
            asker.start()
        assert record.is_asked.wait(10)
        assert "ckptd_sample 1.0" in httpx.get(address + "/metrics", timeout=5).text
        assert httpx.get(address + "/static/style.css", timeout=5).status_code == 200
        began = time.monotonic()
        server.close()
        assert time.monotonic() - began < 3  # two seconds, and what a busy machine adds
        with pytest.raises(httpx.ConnectError):
            httpx.get(address + "/metrics", timeout=5)
    finally:
        record.release.set()
        for asker in askers:
            asker.join(10)


def test_an_idle_server_stops_with_open_connections():
    server, address = listening(Failing())
    with httpx.Client() as client:
        client.get(address + "/metrics")
        began = time.monotonic()
        server.close()
        assert time.monotonic() - began < 3


def test_a_record_that_stops_answering_leaves_the_old_picture_and_says_so(monkeypatch):
    reader = Reader(Failing())
    assert not reader.read_fleet().is_stale
    monkeypatch.setattr("ckptd.web.record.STALE_SECONDS", -1.0)
    monkeypatch.setattr("ckptd.web.record.FRESH_SECONDS", -1.0)
    assert reader.read_fleet().is_stale


def test_a_record_that_never_answered_is_told_without_its_secrets():
    record = Failing()
    record.is_asked.set()
    server, address = listening(record)
    try:
        answer = httpx.get(address + "/api/v1/jobs")
        assert answer.status_code == 503
        assert "secret" not in answer.text
    finally:
        server.close()


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1:99999", "127.0.0.1:x", "203.0.113.1:80"])
def test_an_address_that_cannot_be_listened_on_is_named(listen):
    with pytest.raises(ListenError, match=r"web\.listen"):
        WebServer(listen, METRICS, Failing(), AccessRules())


def test_an_address_in_use_is_named_with_two_ways_out():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ListenError) as refused:
        WebServer(f"127.0.0.1:{taken.getsockname()[1]}", METRICS, Failing(), AccessRules())
    for part in ("another program listens there", "set web.listen", 'CKPTD_WEB__LISTEN=""'):
        assert part in str(refused.value)


def test_an_answer_is_sent_at_once_and_not_held_for_an_acknowledgement():
    server, _ = listening(Failing())
    try:
        assert server._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    finally:
        server.close()
