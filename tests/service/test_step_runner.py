import logging
from datetime import UTC, datetime

import pytest

from ckptd.checkpoints.agent.client import AgentGoneError
from ckptd.errors import CkptdError
from ckptd.metrics.collector import ReportCollector
from ckptd.service.daemon import SCAN
from ckptd.service.step_runner import SECONDS_TO_FORGET, StepRunner
from ckptd.service.systemd import Systemd
from ckptd.steps.results import IDLE, StepResult, error, warning
from ckptd.store.database_errors import StoreError


class SlurmError(CkptdError):
    """Slurm does not answer."""


STARTED = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def collector():
    return ReportCollector("1", started_at=STARTED)


@pytest.fixture
def stepper(collector):
    return StepRunner(collector, Systemd({}))


def read(collector, name):
    text = collector.exposition.read(is_compressed=False).decode()
    return [line for line in text.splitlines() if line.startswith(name)]


def fail(_now):
    raise StoreError("the database is away")


def fail_otherwise(_now):
    raise SlurmError("Slurm is away")


def test_a_failure_is_reported_once_and_again_when_the_step_works(stepper, caplog):
    for step in (fail_otherwise, fail_otherwise, lambda _now: StepResult(), lambda _now: StepResult(), fail_otherwise):
        stepper.run("poll", step)
    assert [record.getMessage() for record in caplog.records] == [
        "step poll failed: Slurm is away",
        "step poll succeeded again",
        "step poll failed: Slurm is away",
    ]


def test_a_step_that_has_had_nothing_to_do_since_it_failed_does_not_count_as_working(collector, caplog):
    now, succeeded = [0.0], []
    stepper = StepRunner(collector, Systemd({}), succeeded.append, clock=lambda: now[0])
    for minutes, step in enumerate((fail_otherwise, lambda _now: IDLE, fail_otherwise, lambda _now: IDLE)):
        now[0] = 60.0 * minutes
        stepper.run("decide", step)
    failed = "step decide failed: Slurm is away"
    assert [record.getMessage() for record in caplog.records] == [failed]
    assert succeeded == []
    now[0] += SECONDS_TO_FORGET
    stepper.run("decide", lambda _now: IDLE)
    assert succeeded == ["decide"], "the failure may never come back"
    stepper.run("decide", fail_otherwise)
    stepper.run("decide", lambda _now: StepResult())
    assert succeeded == ["decide"] * 2
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [failed, "step decide has not failed for 10 min", failed, "step decide succeeded again"]


@pytest.mark.parametrize("is_stopping", [True, False])
def test_that_the_agent_has_ended_is_no_trouble_of_a_daemon_that_stops(collector, caplog, is_stopping):
    def scan_without_agent(_now):
        raise AgentGoneError("the agent has ended")

    StepRunner(collector, Systemd({}), is_stopping=lambda: is_stopping).run(SCAN, scan_without_agent)
    reported = [] if is_stopping else [f"step {SCAN} failed: the agent has ended"]
    assert [record.getMessage() for record in caplog.records] == reported


def test_scans_that_fail_are_reported_once_though_the_step_that_starts_them_goes_well(stepper, caplog):
    for _ in range(3):
        stepper.run("scan", lambda _now: IDLE)
        stepper.run(SCAN, fail_otherwise)
    assert [record.getMessage() for record in caplog.records] == [f"step {SCAN} failed: Slurm is away"]


def test_what_a_step_says_is_in_the_log_and_a_part_that_failed_is_counted(stepper, collector, caplog):
    lines = (warning("job 7: at-risk"), error("a rule failed", ZeroDivisionError()))
    stepper.run("decide", lambda _now: StepResult(lines=lines, has_failed=True))
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "job 7: at-risk"),
        (logging.ERROR, "a rule failed"),
    ]
    assert read(collector, 'ckptd_step_failures_total{step="decide"}') == [
        'ckptd_step_failures_total{step="decide"} 1.0'
    ]


def test_a_step_without_work_says_nothing_of_the_database_and_counts_no_duration(stepper, collector):
    stepper.run("decide", fail)
    stepper.run("decide", lambda _now: IDLE)
    stepper.run("other", lambda _now: StepResult())
    collector.exposition.write()
    assert read(collector, "ckptd_database_up ") == ["ckptd_database_up 0.0"]
    assert read(collector, 'ckptd_step_duration_seconds_count{step="decide"}') == []
    stepper.run("decide", lambda _now: StepResult())
    collector.exposition.write()
    assert read(collector, "ckptd_database_up ") == ["ckptd_database_up 1.0"]
