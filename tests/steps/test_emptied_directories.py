"""Restarts after everything was deleted: a start over that is meant, or a script that empties its own directory."""

import os

import pytest

from ckptd.core.model import EndCause, EndedAttempt, JobState, Severity
from steps.replayed_fleet import minute
from support.checkpoint_bytes import torch_state

NAMED = {"comment": "ckpt=ck"}


def save(fleet, epoch, minutes):
    fleet.save(f"ck/epoch_{epoch}.pt", minutes, torch_state(epoch))


def train(fleet, job):
    for epoch in (1, 2, 3):
        save(fleet, epoch, epoch * 10)
        fleet.run(epoch * 10 + 1, job)


def empty(fleet):
    for path in (fleet.work_dir / "ck").iterdir():
        path.unlink()


def flag(fleet):
    [found] = fleet.parts.store.flags.list_open("c1")
    return found.finding


def end_first(fleet):
    """The first job ends; nothing is in the queue any more."""
    fleet.source.jobs = ()
    for minutes in (33, 34, 35, 36):
        fleet.run(minutes)


def test_a_directory_that_was_emptied_before_the_next_submission_may_be_meant(fleet):
    train(fleet, fleet.job(**NAMED))
    end_first(fleet)
    empty(fleet)
    again = fleet.job(2, start=41, **NAMED)
    fleet.run(42, again)
    save(fleet, 1, 51)
    for minutes in (52, 54):
        fleet.run(minutes, again)
    found = flag(fleet)
    assert (found.rule, found.severity, found.evidence["deleted_count"]) == ("not-resuming", Severity.WARNING, 3)


def test_it_is_said_that_everything_was_deleted_while_the_job_waited(fleet):
    train(fleet, fleet.job(**NAMED))
    ended = EndedAttempt(1, minute(-1), minute(0), minute(33), JobState.REQUEUED, "n1", 1, 1, 0)
    fleet.source.ended = (ended,)
    changes = {"state": JobState.PENDING, "started_at": None, "ends_at": None, "node_list": ""}
    waiting = fleet.job(restart_count=1, **NAMED, **changes)
    fleet.run(34, waiting)
    empty(fleet)
    fleet.run(38)
    again = fleet.job(start=41, restart_count=1, submitted_at=minute(33), **NAMED)
    assert fleet.run(42, again) == [("restarted-without-checkpoint", 1)]
    found = flag(fleet)
    assert found.severity is Severity.WARNING
    assert (found.evidence["found"], found.evidence["deleted_count"]) == ("deleted", 3)


@pytest.mark.parametrize(("cause", "severity"), [("PREEMPTED", "critical"), ("REQUEUED", "warning")])
def test_a_requeue_by_slurm_that_finds_an_emptied_directory_is_critical(fleet, cause, severity):
    job = fleet.job(**NAMED)
    train(fleet, job)
    ended = EndedAttempt(1, minute(-1), minute(0), minute(39), JobState(cause), "n1", 1, 1, 0)
    fleet.source.ended = (ended,)
    empty(fleet)
    again = fleet.job(start=41, restart_count=1, submitted_at=minute(40), **NAMED)
    fleet.run(42, again)
    save(fleet, 1, 51)
    for minutes in (52, 54):
        fleet.run(minutes, again)
    [history] = fleet.parts.store.histories.read("c1", fleet.parts.store.runs.find_of_job(1))
    assert history.attempts[0].cause is {"PREEMPTED": EndCause.PREEMPTION, "REQUEUED": EndCause.REQUEUE}[cause]
    found = flag(fleet)
    assert (found.rule, found.severity.value) == ("not-resuming", severity)
    assert found.evidence["deleted_count"] == 3


@pytest.mark.parametrize("keeps_directory", [True, False])
def test_a_directory_that_is_removed_and_filled_again_between_two_scans(fleet, keeps_directory):
    train(fleet, fleet.job(**NAMED))
    end_first(fleet)
    empty(fleet)
    if not keeps_directory:
        (fleet.work_dir / "ck").rmdir()
        fleet.run(42, fleet.job(2, start=41, **NAMED))
    save(fleet, 1, 51)
    fleet.run(52, fleet.job(2, start=41, **NAMED))
    found = flag(fleet)
    assert (found.rule, found.severity, found.evidence["deleted_count"]) == ("not-resuming", Severity.WARNING, 3)


def test_one_file_that_is_overwritten_by_a_start_over_was_not_deleted(fleet):
    job = fleet.job(**NAMED)
    for epoch in (1, 2, 3):
        fleet.save("ck/last.pt", epoch * 10, torch_state(epoch))
        fleet.run(epoch * 10 + 1, job)
    end_first(fleet)
    again = fleet.job(2, start=41, **NAMED)
    fleet.run(42, again)
    fleet.save("ck/last.pt", 51, torch_state(1))
    assert fleet.run(52, again) == [("not-resuming", 2)]
    found = flag(fleet)
    assert (found.severity, found.evidence["deleted_count"]) == (Severity.CRITICAL, 0)


def test_a_rotation_that_removes_the_old_ones_one_by_one_is_no_removal_of_all(fleet):
    train(fleet, fleet.job(**NAMED))
    end_first(fleet)
    again = fleet.job(2, start=41, **NAMED)
    fleet.run(42, again)
    for epoch, at in ((1, 51), (2, 61)):
        os.unlink(fleet.work_dir / f"ck/epoch_{epoch}.pt")
        save(fleet, epoch, at)
        fleet.run(at + 1, again)
    found = flag(fleet)
    assert (found.severity, found.evidence["deleted_count"]) == (Severity.CRITICAL, 0)
