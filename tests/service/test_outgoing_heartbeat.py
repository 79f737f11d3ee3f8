import logging
import time
from datetime import UTC, datetime

import pytest

from ckptd.config import Config
from ckptd.errors import CkptdError
from ckptd.metrics.collector import ReportCollector
from ckptd.service import outgoing_heartbeat
from ckptd.service.outgoing_heartbeat import ROUND, OutgoingHeartbeat
from ckptd.service.step_runner import StepRunner
from ckptd.service.systemd import Systemd
from ckptd.steps.results import StepResult
from support.heartbeat_receiver import receive_heartbeats
from support.mail_server import free_port, wait_until


@pytest.fixture
def receiver():
    with receive_heartbeats() as server:
        yield server


def finish_round(heartbeat):
    for name in ROUND:
        heartbeat.record(name)


def is_idle(heartbeat):
    return lambda: not heartbeat._is_sending


def test_a_request_follows_each_whole_round(receiver):
    heartbeat = OutgoingHeartbeat(receiver.url)
    for _ in range(5):
        for name in ROUND - {"poll"}:
            heartbeat.record(name)
    assert is_idle(heartbeat)(), "the queue was not polled"
    heartbeat.record("poll")
    wait_until(lambda: receiver.paths == ["/secret-token"], 10)
    wait_until(is_idle(heartbeat), 10)
    finish_round(heartbeat)
    wait_until(lambda: len(receiver.paths) == 2, 10)


def test_a_step_that_fails_ends_no_round(receiver):
    heartbeat = OutgoingHeartbeat(receiver.url)
    stepper = StepRunner(
        ReportCollector("1", started_at=datetime(2026, 11, 20, tzinfo=UTC)), Systemd({}), heartbeat.record
    )

    def fail(_now):
        raise CkptdError("the database is away")

    for name in ROUND:
        stepper.run(name, fail if name == "decide" else lambda _now: StepResult())
    assert is_idle(heartbeat)()
    assert receiver.paths == []
    stepper.run("decide", lambda _now: StepResult())
    wait_until(lambda: len(receiver.paths) == 1, 10)


def test_a_receiver_that_hangs_delays_no_step_and_gets_one_request_at_a_time(receiver):
    receiver.may_answer.clear()
    heartbeat = OutgoingHeartbeat(receiver.url)
    began = time.monotonic()
    for _ in range(20):
        finish_round(heartbeat)
    assert time.monotonic() - began < 1
    wait_until(lambda: len(receiver.paths) == 1, 10)
    receiver.may_answer.set()
    wait_until(is_idle(heartbeat), 10)
    assert len(receiver.paths) == 1


@pytest.mark.parametrize(("status", "text"), [(404, "HTTP status 404"), (302, "HTTP status 302")])
def test_failures_are_logged_once_without_the_path(receiver, caplog, status, text):
    heartbeat = OutgoingHeartbeat(receiver.url)
    for receiver.status in (status, status, 200, 200):
        finish_round(heartbeat)
        wait_until(is_idle(heartbeat), 10)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"heartbeat to 127.0.0.1 failed: {text}; trying again after each round",
        "heartbeat to 127.0.0.1 succeeded again",
    ]
    assert receiver.paths == ["/secret-token"] * 4, "redirects are not followed"


def test_a_receiver_that_does_not_answer_in_time_or_is_not_there_is_a_failure(receiver, caplog, monkeypatch):
    monkeypatch.setattr(outgoing_heartbeat, "TIMEOUT_SECONDS", 0.2)
    receiver.may_answer.clear()
    for url in (receiver.url, f"http://127.0.0.1:{free_port()}/"):
        heartbeat = OutgoingHeartbeat(url)
        finish_round(heartbeat)
        wait_until(is_idle(heartbeat), 10)
    slow, absent = [record.getMessage() for record in caplog.records]
    assert "timed out" in slow
    assert "Connection refused" in absent


@pytest.mark.parametrize(
    "url", ["ftp://h/x", "file:///etc/passwd", "https://:1/", "h/x", "http://h/a b", "http://h:x/"]
)
def test_other_addresses_are_refused_without_showing_them(url):
    with pytest.raises(ValueError, match="must be an address such as") as refusal:
        Config.model_validate({"service": {"heartbeat_url": url}})
    assert url not in str(refusal.value)
