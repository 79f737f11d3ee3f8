"""Restarts beside files of unknown formats: ckptd states no loss that it does not know, and finds the real ones."""

import os
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.core.model import EndedAttempt, JobState, Severity
from steps.databases import on_both_databases
from steps.replayed_fleet import UID, Fleet, made_work_dir, minute
from steps.unknown_layouts import FORTRAN, LOG, NO_CHECKPOINTS, UNKNOWN_FORMATS
from support.checkpoint_bytes import torch_state
from support.shared_agent import get_agent

NAMED = {"comment": "ckpt=ck"}
RESTART_RULES = {"restarted-without-checkpoint", "checkpoints-not-located"}


def requeue(fleet, layout):
    """Let a job write these files, be requeued after an hour, and run for a while again; return it as it is then."""
    return requeue_all(fleet, {"": layout})[0]


def requeue_all(fleet, layouts):
    """Do the same with several jobs at once, whose numbers begin with 1, each in a folder of its own."""
    for folder, layout in layouts.items():
        above = [f"ck/{each}" for name in layout for each in reversed(PurePosixPath(name).parents)]
        for place in ["", "ck", *above]:
            (fleet.work_dir / folder / place).mkdir(exist_ok=True)
            os.chown(fleet.work_dir / folder / place, UID, UID)

    def jobs(**changes):
        return [
            fleet.job(job_id, name=f"train{folder}", work_dir=fleet.work_dir / folder, **NAMED, **changes)
            for job_id, folder in enumerate(layouts, 1)
        ]

    fleet.run(1, *jobs())
    for folder, layout in layouts.items():
        for name, content in layout.items():
            saved_at = -900 if name.endswith("@old") else 20
            fleet.save(f"{folder or '.'}/ck/{name.removesuffix('@old')}", saved_at, content)
    for minutes in (22, 61):
        fleet.run(minutes, *jobs())
    fleet.source.ended = tuple(
        EndedAttempt(job_id, minute(-1), minute(0), minute(62), JobState.REQUEUED, "n1", 1, 1, 0)
        for job_id in range(1, len(layouts) + 1)
    )
    fleet.run(63, *jobs(restart_count=1, state=JobState.PENDING, started_at=None, ends_at=None))
    again = jobs(restart_count=1, start=64)
    for minutes in (65, 67):
        fleet.run(minutes, *again)
    return again


def restart_flags(fleet, job_id=1):
    open_flags = [each.finding for each in fleet.parts.store.flags.list_open("c1") if each.finding.job_id == job_id]
    return {each.rule: each for each in open_flags if each.rule in RESTART_RULES}


def loss_of_first(fleet, job_id=1):
    [run] = fleet.parts.store.runs.find_of_job(job_id)
    [line] = fleet.parts.store.lost_work.list_lines(run)
    return line.loss.lost, line.loss.most, line.is_final


@pytest.fixture(scope="module")
def requeued():
    """What one daemon says of the restart in each layout, and of the work that is lost."""
    with made_work_dir() as directory:
        fleet = Fleet(get_agent(), f"sqlite:///{directory.parent}/record.db", directory)
        layouts = UNKNOWN_FORMATS | NO_CHECKPOINTS
        requeue_all(fleet, {str(number): layout for number, layout in enumerate(layouts.values(), 1)})
        said = {name: (restart_flags(fleet, job), loss_of_first(fleet, job)) for job, name in enumerate(layouts, 1)}
        fleet.parts.store.close()
    return said


@pytest.mark.parametrize("name", UNKNOWN_FORMATS)
def test_of_files_in_unknown_formats_nobody_says_that_they_are_no_checkpoints(requeued, name):
    found, (lost, most, is_final) = requeued[name]
    assert "restarted-without-checkpoint" not in found
    assert {each.severity for each in found.values()} <= {Severity.INFO}
    assert is_final
    assert lost <= timedelta(minutes=42), "what was saved at minute 20 is not lost"
    assert lost <= most


@pytest.mark.parametrize("name", NO_CHECKPOINTS)
def test_without_a_file_that_may_be_a_checkpoint_the_work_is_lost(requeued, name):
    found, loss = requeued[name]
    assert {rule: each.severity for rule, each in found.items()} == {"restarted-without-checkpoint": Severity.CRITICAL}
    assert loss == (timedelta(minutes=62), timedelta(minutes=62), True)


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
