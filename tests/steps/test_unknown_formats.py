"""Restarts beside files of unknown formats: ckptd states no loss that it does not know, and finds the real ones."""

import os
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.core.model import EndedAttempt, JobState, Severity
from steps.databases import on_both_databases
from steps.replayed_fleet import UID, Fleet, minute
from steps.unknown_layouts import FORTRAN, LOG, NO_CHECKPOINTS, UNKNOWN_FORMATS
from support.checkpoint_bytes import torch_state
from support.shared_agent import get_agent

NAMED = {"comment": "ckpt=ck"}
RESTART_RULES = {"restarted-without-checkpoint", "checkpoints-not-located"}


def requeue(fleet, layout, at=20):
    """Let a job write these files, be requeued after an hour, and run for a while again."""
    for place in ["ck", *(f"ck/{above}" for name in layout for above in reversed(PurePosixPath(name).parents))]:
        (fleet.work_dir / place).mkdir(exist_ok=True)
        os.chown(fleet.work_dir / place, UID, UID)
    job = fleet.job(**NAMED)
    fleet.run(1, job)
    for name, content in layout.items():
        fleet.save(f"ck/{name.removesuffix('@old')}", -900 if name.endswith("@old") else at, content)
    for minutes in (22, 61):
        fleet.run(minutes, job)
    fleet.source.ended = (EndedAttempt(1, minute(-1), minute(0), minute(62), JobState.REQUEUED, "n1", 1, 1, 0),)
    fleet.run(63, fleet.job(restart_count=1, state=JobState.PENDING, started_at=None, ends_at=None, **NAMED))
    again = fleet.job(restart_count=1, start=64, **NAMED)
    for minutes in (65, 67):
        fleet.run(minutes, again)
    return again


def restart_flags(fleet):
    open_flags = [each.finding for each in fleet.parts.store.flags.list_open("c1")]
    return {each.rule: each for each in open_flags if each.rule in RESTART_RULES}


def loss_of_first(fleet):
    [run] = fleet.parts.store.runs.find_of_job(1)
    [line] = fleet.parts.store.lost_work.list_lines(run)
    return line.loss.lost, line.loss.most, line.is_final


@pytest.mark.parametrize("layout", UNKNOWN_FORMATS.values(), ids=UNKNOWN_FORMATS)
def test_of_files_in_unknown_formats_nobody_says_that_they_are_no_checkpoints(fleet, layout):
    requeue(fleet, layout)
    found = restart_flags(fleet)
    assert "restarted-without-checkpoint" not in found
    assert {each.severity for each in found.values()} <= {Severity.INFO}
    lost, most, is_final = loss_of_first(fleet)
    assert is_final
    assert lost <= timedelta(minutes=42), "what was saved at minute 20 is not lost"
    assert lost <= most


@pytest.mark.parametrize("layout", NO_CHECKPOINTS.values(), ids=NO_CHECKPOINTS)
def test_without_a_file_that_may_be_a_checkpoint_the_work_is_lost(fleet, layout):
    requeue(fleet, layout)
    found = restart_flags(fleet)
    assert {rule: each.severity for rule, each in found.items()} == {"restarted-without-checkpoint": Severity.CRITICAL}
    assert loss_of_first(fleet) == (timedelta(minutes=62), timedelta(minutes=62), True)


def recorded_file(fleet):
    [history] = fleet.parts.store.histories.read("c1", fleet.parts.store.runs.find_of_job(1))
    return history.scan.unrecognised


@on_both_databases
def test_the_file_stays_on_record_while_nothing_changes_and_over_a_restart_of_the_daemon(url, work_dir):
    fleet = Fleet(get_agent(), url, work_dir)
    again = requeue(fleet, {"photos/x100": FORTRAN})
    known = recorded_file(fleet)
    assert (known.path, known.size_bytes) == ("photos/x100", len(FORTRAN))
    assert known.modified_at == minute(20).replace(microsecond=0)
    fleet.parts.store.close()
    later = Fleet(get_agent(), url, work_dir)
    for minutes in (70, 75, 80):
        assert later.run(minutes, again) == [("checkpoints-not-located", 1)]
        assert recorded_file(later) == known
    (work_dir / "ck/photos/x100").unlink()
    later.run(90, again)
    assert recorded_file(later) is None
    later.parts.store.close()


def test_a_restart_after_an_attempt_that_wrote_nothing_is_critical_until_it_saves_itself(fleet):
    again = requeue(fleet, {"run.log": LOG})
    assert [each.severity for each in restart_flags(fleet).values()] == [Severity.CRITICAL]
    fleet.save("ck/fort.20", 70, FORTRAN)
    fleet.run(72, again)
    assert {rule: each.severity for rule, each in restart_flags(fleet).items()} == {
        "checkpoints-not-located": Severity.INFO
    }
    assert loss_of_first(fleet)[0] == timedelta(minutes=62), "the first attempt wrote no such file"


def test_other_files_are_no_checkpoints_once_the_job_has_used_a_known_format(fleet):
    (fleet.work_dir / "ck").mkdir()
    os.chown(fleet.work_dir / "ck", UID, UID)
    job = fleet.job(**NAMED)
    fleet.run(1, job)
    fleet.save("ck/epoch_1.pt", 10, torch_state(1))
    fleet.save("ck/samples.dat", 20, FORTRAN)
    fleet.run(22, job)
    assert recorded_file(fleet) is None
    (fleet.work_dir / "ck/epoch_1.pt").unlink()
    fleet.source.ended = (EndedAttempt(1, minute(-1), minute(0), minute(62), JobState.PREEMPTED, "n1", 1, 1, 0),)
    fleet.run(63, fleet.job(restart_count=1, state=JobState.PENDING, started_at=None, ends_at=None, **NAMED))
    again = fleet.job(restart_count=1, start=64, **NAMED)
    for minutes in (65, 67):
        fleet.run(minutes, again)
    assert restart_flags(fleet)["restarted-without-checkpoint"].severity is Severity.CRITICAL


@pytest.mark.parametrize(("name", "severity"), [("fort.20", Severity.INFO), ("run.log", Severity.WARNING)])
def test_a_first_attempt_with_such_files_is_not_warned_that_it_saves_nothing(fleet, name, severity):
    (fleet.work_dir / "ck").mkdir()
    os.chown(fleet.work_dir / "ck", UID, UID)
    job = fleet.job(**NAMED)
    fleet.run(1, job)
    fleet.save(f"ck/{name}", 20, FORTRAN)
    fleet.run(22, job)
    assert fleet.run(70, job) == [("no-checkpoint-yet", 1)]
    [flag] = fleet.parts.store.flags.list_open("c1")
    assert flag.finding.severity is severity
    assert flag.finding.evidence["unrecognised"] == (
        f"{fleet.work_dir}/ck/{name}" if severity is Severity.INFO else None
    )


def test_a_file_of_an_unknown_format_in_a_further_location_makes_the_loss_a_bound(fleet):
    archive = fleet.work_dir.parent / "archive"
    for place in (archive, fleet.work_dir / "ck"):
        place.mkdir()
        os.chown(place, UID, UID)
    named = {"comment": f"ckpt=ck:{archive}"}
    fleet.run(1, fleet.job(**named))
    fleet.save("ck/run.log", 60, LOG)
    fleet.save(archive / "fort.20", 20, FORTRAN)
    for minutes in (22, 61):
        fleet.run(minutes, fleet.job(**named))
    fleet.source.ended = (EndedAttempt(1, minute(-1), minute(0), minute(62), JobState.REQUEUED, "n1", 1, 1, 0),)
    fleet.run(63, fleet.job(restart_count=1, state=JobState.PENDING, started_at=None, ends_at=None, **named))
    for minutes in (65, 67):
        fleet.run(minutes, fleet.job(restart_count=1, start=64, **named))
    assert set(restart_flags(fleet)) == {"checkpoints-not-located"}
    lost, most, _ = loss_of_first(fleet)
    assert (lost, most) == (timedelta(0), timedelta(minutes=62))
