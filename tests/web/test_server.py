import socket
import threading
import time
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from ckptd.core.forecast.limit_margins import LimitMargins
from ckptd.errors import CkptdError
from ckptd.web import documents
from ckptd.web.access import AccessRules
from ckptd.web.cache import PageReader
from ckptd.web.server import ListenError, WebServer
from demo.patience import allow
from web import samples
from web.conftest import METRICS


class Hanging:
    """A record whose database never answers, until it is released."""

    def __init__(self):
        self.is_asked = threading.Event()
        self.release = threading.Event()

    def list_jobs(self, now):
        self.is_asked.set()
        self.release.wait(allow(60))
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
    reader = PageReader(record, lambda key: (f"A setting about {key.directory}",))
    found = documents.run(reader.read_run(samples.ALICE), samples.NOW)
    assert found["setting_warnings"] == [f"A setting about {samples.ALICE.directory}"]


def test_a_run_is_forecast_with_the_margins_of_the_site(record):
    of_site = replace(record, find_margins=lambda _: LimitMargins(loss=timedelta(hours=3), goal=timedelta(hours=3)))
    default, wide = (documents.run(PageReader(each).read_run(samples.ALICE), samples.NOW) for each in (record, of_site))
    for key in ("saves_that_fit", "epochs_that_fit"):
        assert wide["forecast"]["at_limit"]["101"][key] < default["forecast"]["at_limit"]["101"][key]
    assert wide["timeline"]["losses"][-1]["begins_at"] < default["timeline"]["losses"][-1]["begins_at"]


def listening(record):
    server = WebServer("127.0.0.1:0", METRICS, record, AccessRules())
    return server, f"http://127.0.0.1:{server.port}"


def ask_quietly(address):
    try:
        httpx.get(address, timeout=allow(60))
    except httpx.HTTPError:
        return


def test_metrics_and_the_end_wait_for_no_database():
    record = Hanging()
    server, address = listening(record)
    askers = [threading.Thread(target=ask_quietly, args=[address + "/api/v1/jobs"]) for _ in range(8)]
    try:
        for asker in askers:
            asker.start()
        assert record.is_asked.wait(allow(10))
        assert "ckptd_sample 1.0" in httpx.get(address + "/metrics", timeout=allow(5)).text
        assert httpx.get(address + "/static/style.css", timeout=allow(5)).status_code == 200
        began = time.monotonic()
        server.close()
        assert time.monotonic() - began < allow(3)
        with pytest.raises(httpx.ConnectError):
            httpx.get(address + "/metrics", timeout=allow(5))
    finally:
        record.release.set()
        for asker in askers:
            asker.join(allow(10))


def test_an_idle_server_stops_with_open_connections():
    server, address = listening(Failing())
    with httpx.Client() as client:
        client.get(address + "/metrics")
        began = time.monotonic()
        server.close()
        assert time.monotonic() - began < allow(3)


def test_a_record_that_stops_answering_leaves_the_old_picture_and_says_so(monkeypatch):
    reader = PageReader(Failing())
    assert not reader.read_fleet().is_stale
    monkeypatch.setattr("ckptd.web.cache.STALE_SECONDS", -1.0)
    monkeypatch.setattr("ckptd.web.cache.FRESH_SECONDS", -1.0)
    assert reader.read_fleet().is_stale


def test_the_first_page_after_a_while_finds_a_picture_that_nobody_had_to_wait_for(monkeypatch):
    monkeypatch.setattr("ckptd.web.cache.FIRST_SECONDS", 0.0)
    record = Failing()  # on the second time
    server, address = listening(record)
    try:
        assert record.is_asked.wait(allow(20))
        assert httpx.get(address + "/api/v1/jobs", timeout=allow(60)).status_code == 200
    finally:
        server.close()


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


class Counting:
    """A record that counts how often it sums up ends, the second time for long."""

    def __init__(self):
        self.count = 0
        self.go_on = threading.Event()

    def read_ends(self, cluster, since):
        self.count += 1
        if self.count > 1:
            self.go_on.wait(allow(60))
        return [self.count]


def test_how_attempts_ended_is_summed_up_once_in_a_while_and_nobody_waits_for_the_next_sum(monkeypatch):
    record = Counting()
    reader = PageReader(record)
    assert [reader._read_ends("c1") for _ in range(3)] == [[1]] * 3
    assert record.count == 1
    monkeypatch.setattr("ckptd.web.cache.ENDS_SECONDS", 0.0)
    assert [reader._read_ends("c1") for _ in range(3)] == [[1]] * 3
    record.go_on.set()
    assert reader._summing.acquire(timeout=allow(20)), "the sum behind the pages ends"
    reader._summing.release()
    assert record.count == 2
    assert reader._ends["c1"][0] == [2]
