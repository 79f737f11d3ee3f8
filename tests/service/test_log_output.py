"""What the log says in each of its formats."""

import io
import json
import logging
import os
import socket
import struct

import pytest

from ckptd.metrics.collector import ReportCollector
from ckptd.service import log_output
from ckptd.service.log_output import JournalHandler, JsonFormatter
from ckptd.service.step_runner import StepRunner
from ckptd.service.systemd import Systemd
from ckptd.steps.results import StepResult, warning
from ckptd.store.database_errors import DatabaseAwayError
from core.histories import START


@pytest.fixture
def journal(tmp_path):
    """A socket in place of journald's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "journal"))
        listener.settimeout(10)
        yield listener


@pytest.fixture
def logger():
    made = logging.getLogger("ckptd")
    yield made
    for each in list(made.handlers):
        made.removeHandler(each)
        each.close()


@pytest.fixture
def stepper():
    return StepRunner(ReportCollector("1", started_at=START), Systemd({}))


def read_entry(journal):
    """Parse a datagram as journald does."""
    data, fields = journal.recv(1 << 20), {}
    while data:
        head, _, rest = data.partition(b"\n")
        name, sign, value = head.partition(b"=")
        if sign:
            data = rest
        else:
            (size,) = struct.unpack("<Q", rest[:8])
            value, data = rest[8 : 8 + size], rest[9 + size :]
        fields[name.decode()] = value.decode()
    return fields


def test_the_journal_gets_priorities_and_what_a_line_is_about(journal, logger, stepper):
    logger.addHandler(JournalHandler(journal.getsockname()))
    line = warning("flag at-risk opened: job 7", run="/scratch/a\nPRIORITY=0", job=7, user="alice", rule="at-risk")
    stepper.run("decide", lambda _now: StepResult(lines=(line,)))
    assert read_entry(journal) == {
        "MESSAGE": "flag at-risk opened: job 7",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "ckptd",
        "RUN": "/scratch/a\nPRIORITY=0",
        "JOB": "7",
        "USER": "alice",
        "RULE": "at-risk",
        "STEP": "decide",
    }


def test_a_line_that_no_step_wrote_has_no_step(journal, logger):
    logger.addHandler(JournalHandler(journal.getsockname()))
    logger.error("agent exited")
    assert read_entry(journal) == {"MESSAGE": "agent exited", "PRIORITY": "3", "SYSLOG_IDENTIFIER": "ckptd"}


def test_without_a_journal_lines_on_stderr_have_a_priority(tmp_path, logger, capsys):
    logger.addHandler(JournalHandler(str(tmp_path / "nobody")))
    logger.warning("first\nsecond")
    assert capsys.readouterr().err == "<4>first\n<4>second\n"


def test_json_has_one_object_a_line(logger, stepper):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    stepper.run("act", lambda _now: StepResult(lines=(warning("hold-job: job 7", job=7, user="alice"),)))
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line) | {"time": ""} == {
        "time": "",
        "level": "warning",
        "message": "hold-job: job 7",
        "job": "7",
        "user": "alice",
        "step": "act",
    }


def test_the_journal_is_recognised_by_the_stream_that_systemd_connected(tmp_path):
    with (tmp_path / "log").open("w") as stream:
        status = os.fstat(stream.fileno())
        assert log_output.is_journal(stream, {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
        assert not log_output.is_journal(stream, {"JOURNAL_STREAM": "1:2"})
        assert not log_output.is_journal(stream, {})
    assert not log_output.is_journal(io.StringIO(), {"JOURNAL_STREAM": "1:2"})


def test_the_choices_of_the_command_are_the_formats():
    from ckptd.cli.daemon_commands import run  # noqa: PLC0415 - the command alone

    (option,) = [each for each in run.params if each.name == "log_format"]
    assert tuple(option.type.choices) == log_output.FORMATS


def test_a_database_that_flaps_is_reported_once_until_it_has_answered_for_a_while(caplog):
    clock = [0.0]
    stepper = StepRunner(ReportCollector("1", started_at=START), Systemd({}), clock=lambda: clock[0])

    def fail(reason):
        def step(_now):
            raise DatabaseAwayError(f"the database failed: {reason}")

        return step

    for number in range(20):
        clock[0] = number
        for name in ("poll", "decide", "publish"):
            stepper.run(name, fail(number) if number % 2 else lambda _now: StepResult())
    assert stepper.is_database_away
    clock[0] = 60.0
    for name in ("poll", "decide", "publish"):
        assert stepper.is_database_away, "until each of these steps has recorded again"
        stepper.run(name, lambda _now: StepResult())
    assert [record.getMessage() for record in caplog.records] == [
        "the database failed: 1; nothing is recorded until it answers",
        "the database has answered for 30 s again, after 18 s",
    ]
    assert not stepper.is_database_away


def test_steps_that_only_read_do_not_end_an_outage_in_which_others_cannot_record(caplog):
    clock = [0.0]
    stepper = StepRunner(ReportCollector("1", started_at=START), Systemd({}), clock=lambda: clock[0])

    def fail(_now):
        raise DatabaseAwayError("the disk is full")

    for minute in range(5):
        clock[0] = 60.0 * minute
        stepper.run("poll", fail)
        stepper.run("scan-directories", fail)
        clock[0] += 50
        stepper.run("publish", lambda _now: StepResult())
        stepper.run("scan-directories", lambda _now: StepResult())
        assert stepper.is_database_away
    stepper.run("poll", lambda _now: StepResult())
    assert [record.getMessage() for record in caplog.records] == [
        "the disk is full; nothing is recorded until it answers",
        "the database has answered for 30 s again, after 240 s",
    ]
