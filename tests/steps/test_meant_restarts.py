"""Jobs that begin anew, or do other work, in a directory with earlier checkpoints: how surely that is a mistake."""

import struct
from datetime import timedelta

import pytest

from ckptd.core.model import EndedAttempt, JobState, Severity
from steps.replayed_fleet import minute
from support.checkpoint_bytes import npz_state, torch_state

NAMED = {"comment": "ckpt=ck"}


def train(fleet, names=("epoch_1.pt", "epoch_2.pt", "epoch_3.pt")):
    job = fleet.job(**NAMED)
    fleet.run(1, job)
    for epoch, name in enumerate(names, start=1):
        fleet.save(f"ck/{name}", epoch * 10, torch_state(epoch))
        fleet.run(epoch * 10 + 1, job)


def end(fleet, state, minutes=33):
    ended = EndedAttempt(1, minute(-1), minute(0), minute(minutes), JobState(state), "n1", 1, 1, 0)
    fleet.source.ended = (ended,)
    fleet.source.jobs = ()
    for later in (minutes + 1, minutes + 2, minutes + 3):
        fleet.run(later)


def severities(fleet):
    flags = [flag.finding for flag in fleet.parts.store.flags.list_open("c1")]
    return [each.severity for each in flags if each.rule == "not-resuming"]


def begin_anew(fleet, job, name="epoch_1.pt", epoch=1):
    fleet.run(52, job)
    fleet.save(f"ck/{name}", 61, torch_state(epoch))
    fleet.run(62, job)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("COMPLETED", []),
        ("CANCELLED", [Severity.WARNING]),
        ("FAILED", [Severity.WARNING]),
        ("TIMEOUT", [Severity.CRITICAL]),
    ],
)
def test_a_job_that_is_submitted_again_after_its_end_may_begin_anew(fleet, state, expected):
    train(fleet)
    end(fleet, state)
    begin_anew(fleet, fleet.job(2, start=51, **NAMED))
    assert severities(fleet) == expected


def test_the_next_job_of_a_chain_was_submitted_before_and_may_not(fleet):
    train(fleet)
    end(fleet, "COMPLETED")
    begin_anew(fleet, fleet.job(2, start=51, submitted_at=minute(5), **NAMED))
    assert severities(fleet) == [Severity.CRITICAL]


OTHER = {
    "another fold": ("fold0_epoch{}.pt", "fold1_epoch1.pt"),
    "another part of the work": ("pre_epoch_{}.pt", "ft_epoch_1.pt"),
    "another learning rate": ("lr0_last_{}.pt", "lr2_last_1.pt"),
}


@pytest.mark.parametrize(("names", "name"), OTHER.values(), ids=OTHER)
def test_a_requeued_job_that_saves_under_other_names_may_do_other_work(fleet, names, name):
    train(fleet, [names.format(epoch) for epoch in (1, 2, 3)])
    begin_anew(fleet, fleet.job(start=51, restart_count=1, submitted_at=minute(50), **NAMED), name)
    assert severities(fleet) == [Severity.WARNING]


@pytest.mark.parametrize(("state", "expected"), [("COMPLETED", []), ("TIMEOUT", [Severity.WARNING])])
def test_the_next_job_that_saves_under_other_names_does_other_work_where_the_first_was_done(fleet, state, expected):
    train(fleet, [f"seed0_epoch_{epoch}.pt" for epoch in (1, 2, 3)])
    end(fleet, state)
    begin_anew(fleet, fleet.job(2, start=51, submitted_at=minute(5), **NAMED), "seed1_epoch_1.pt")
    assert severities(fleet) == expected


def test_steps_that_fall_while_epochs_rise_are_of_a_larger_batch(fleet):
    job = fleet.job(**NAMED)
    for epoch in (1, 2, 3):
        fleet.save(f"ck/epoch_{epoch}.pt", epoch * 10, torch_state(epoch, epoch * 1000))
        fleet.run(epoch * 10 + 1, job)
    again = fleet.job(start=51, restart_count=1, submitted_at=minute(50), **NAMED)
    fleet.run(52, again)
    fleet.save("ck/epoch_4.pt", 61, torch_state(4, 2000))
    fleet.run(62, again)
    assert severities(fleet) == []


def test_a_notebook_that_is_started_again_after_its_time_limit_may_begin_anew(fleet):
    fleet.run(1, fleet.job(name="jupyter"))
    for epoch in (1, 2, 3, 4):
        fleet.save(f"ck/epoch_{epoch}.pt", epoch * 8, torch_state(epoch))
        fleet.run(epoch * 8 + 1, fleet.job(name="jupyter"))
    end(fleet, "TIMEOUT")
    again = fleet.job(2, start=51, name="jupyter")
    begin_anew(fleet, again)
    assert severities(fleet) == [Severity.WARNING]
    for epoch in (2, 3, 4, 5):
        fleet.save(f"ck/epoch_{epoch}.pt", 53 + epoch * 8, torch_state(epoch))
        fleet.run(54 + epoch * 8, again)
    assert fleet.run(150, again) == []  # nor is it overdue: the person may do something else


def save_namd(fleet, step, minutes):
    for kind in ("coor", "vel"):
        fleet.save(f"run/out.restart.{kind}", minutes, struct.pack("<i3d", 1, 1.0, 2.0, float(step)))
    fleet.save("run/out.restart.xsc", minutes, f"# NAMD extended system\n#$LABELS step a_x\n{step} 10\n".encode())


def test_a_namd_that_counts_from_0_may_have_resumed(fleet):
    job = fleet.job(comment="ckpt=run")
    fleet.run(1, job)
    for number in (1, 2, 3, 4):
        save_namd(fleet, number * 1000, number * 8)
        fleet.run(number * 8 + 1, job)
    end(fleet, "TIMEOUT")
    again = fleet.job(2, start=51, comment="ckpt=run")
    fleet.run(52, again)
    save_namd(fleet, 1000, 59)
    fleet.run(60, again)
    assert severities(fleet) == [Severity.WARNING]
    [flag] = fleet.parts.store.flags.list_open("c1")
    assert flag.finding.evidence["intent"] == "counted-anew"
    [run] = fleet.parts.store.runs.find_of_job(2)
    [line] = [each for each in fleet.parts.store.lost_work.list_lines(run) if each.attempt[0].job_id == 1]
    assert (line.redone.low, line.redone.high) == (timedelta(0), timedelta(minutes=32))


def test_a_single_rolling_file_in_a_directory_for_checkpoints_is_found(fleet):
    job = fleet.job()
    fleet.run(1, job)
    for step in (1, 2, 3):
        fleet.save("ckpt/latest.npz", step * 8, npz_state(step=step))
        fleet.run(step * 8 + 1, job)
    [row] = fleet.parts.store.jobs.list_open(minute(30))
    assert (row.directory, row.step) == (f"{fleet.work_dir}/ckpt", 3)


def train_folds(fleet, folds):
    """Save three epochs of each fold, ten minutes each."""
    job, minutes = fleet.job(**NAMED), 0
    fleet.run(1, job)
    for fold in folds:
        for epoch in (1, 2, 3):
            minutes += 5
            fleet.save(f"ck/fold{fold}_epoch_{epoch}.pt", minutes, torch_state(epoch))
            fleet.run(minutes + 1, job)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("fold2_epoch_1.pt", []), ("fold0_epoch_1.pt", [Severity.CRITICAL])],
    ids=["the next fold", "the first fold again"],
)
def test_a_run_that_has_worked_through_folds_goes_on_with_the_next(name, expected, fleet):
    train_folds(fleet, (0, 1))
    begin_anew(fleet, fleet.job(start=51, restart_count=1, submitted_at=minute(50), **NAMED), name)
    assert severities(fleet) == expected


def test_a_fold_that_was_gone_on_with_may_be_followed_by_another(fleet):
    train_folds(fleet, (0,))
    again = fleet.job(start=51, restart_count=1, submitted_at=minute(50), **NAMED)
    begin_anew(fleet, again, "fold0_epoch_4.pt", 4)
    fleet.save("ck/fold1_epoch_1.pt", 71, torch_state(1))
    assert fleet.run(72, again) == []
