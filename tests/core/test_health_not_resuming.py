"""The rule about restarts that resume from an older checkpoint than the newest, or from none."""

from dataclasses import replace

import pytest

from ckptd.core.health.not_resuming import NotResuming
from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.model import (
    Certainty,
    CheckpointState,
    CopyLocation,
    EndCause,
    RestartKind,
    Resume,
    ResumeReason,
    Role,
    Unknown,
)
from core.histories import REQUEUED, RUN, at, attempt, history, job, only, saved, scan_at, text_of

NOT_RESUMING = {
    "it goes on": ([saved(50, step=50), saved(80, step=60)], None),
    "it begins again": ([saved(50, step=50), saved(80, step=10)], 50),
    "it begins again over the same file": ([saved(50, name="c", step=50, gone=80), saved(80, name="c", step=10)], 50),
    "epochs where there is no step": ([saved(50, epoch=5), saved(80, epoch=0)], 5),
    "nothing saved since": ([saved(50, step=50)], None),
    "nothing saved before": ([saved(80, step=10)], None),
    "units that cannot be compared": ([saved(50, step=50), saved(80, epoch=1)], None),
    "the same step again": ([saved(50, step=50), saved(80, step=50)], None),
}


@pytest.mark.parametrize(("checkpoints", "lost"), NOT_RESUMING.values(), ids=NOT_RESUMING)
def test_a_restart_that_saves_less_than_was_saved_is_not_resuming(checkpoints, lost):
    findings = list(NotResuming().evaluate(history(now=90, attempts=REQUEUED, checkpoints=checkpoints), at(90)))
    assert [finding.evidence["saved_before"] for finding in findings] == ([lost] if lost else [])


def resuming(*checkpoints, **resumed):
    """What is found of a restart of which it is known what it resumed from."""
    resume = Resume(**{"certainty": Certainty.INFERRED, "reason": ResumeReason.PROGRESS, **resumed})
    attempts = [*REQUEUED[:-1], replace(REQUEUED[-1], resumed_from=resume)]
    return list(NotResuming().evaluate(history(now=90, attempts=attempts, checkpoints=checkpoints), at(90)))


def from_step(step, minute):
    return {"path": f"{RUN.directory}/step-{step}.pt", "saved_at": at(minute)}


def test_lammps_that_starts_over_and_writes_the_same_step_again_is_not_resuming():
    again = saved(50, name="poly.restart", step=20_000, gone=80), saved(80, name="poly.restart", step=20_000)
    (finding,) = resuming(*again)
    assert (finding.evidence["saved_before"], finding.evidence["saved_now"]) == (20_000, 20_000)
    assert "It probably started from the beginning." in text_of(finding)


def test_a_backup_that_was_loaded_counts_with_its_progress():
    """It was made at minute 50 of a state that was saved at minute 40."""
    newest, backup = saved(50, name="state.cpt", step=50), saved(50.1, name="state_prev.cpt", step=40, gone=63)
    evidence = {"unit": "step", "loaded": 40.0}
    resume = Resume(
        certainty=Certainty.INFERRED,
        reason=ResumeReason.PROGRESS,
        path=f"{RUN.directory}/state_prev.cpt",
        saved_at=at(40),
        evidence=evidence,
    )
    attempts = [*REQUEUED[:-1], replace(REQUEUED[-1], resumed_from=resume)]
    older = replace(saved(40, name="state.cpt", step=40, gone=80), first_seen_at=at(63))
    gone = replace(newest, deleted_at=at(63))
    copy = CopyLocation(directory="/archive", scan=scan_at(90), checkpoints=(saved(41, step=40),))
    given = history(
        now=90,
        attempts=attempts,
        checkpoints=[gone, backup, older, saved(80, name="state.cpt", step=45)],
        copies=(copy,),
    )
    assert list(NotResuming().evaluate(given, at(90))) == []


def resuming_from_put_back(**changes):
    """What is found where an older checkpoint took the place of the newest after the restart, and was loaded."""
    newest, own = saved(50, name="c", step=50, gone=63), saved(80, name="c", step=45)
    older = replace(saved(40, name="c", step=40, gone=80), first_seen_at=at(63))
    resume = Resume(certainty=Certainty.PROVEN, reason=ResumeReason.PROGRAM, path=f"{RUN.directory}/c", saved_at=at(40))
    attempts = [*REQUEUED[:-1], replace(REQUEUED[-1], resumed_from=resume)]
    run = history(now=90, attempts=attempts, checkpoints=[newest, older, own], **changes)
    return list(NotResuming().evaluate(run, at(90)))


def test_a_job_that_always_begins_with_an_old_checkpoint_is_not_resuming():
    (finding,) = resuming_from_put_back()
    assert (finding.evidence["saved_before"], finding.evidence["saved_now"]) == (50, 45)


def test_a_job_whose_fast_disk_is_empty_resumes_from_the_newest_copy_and_from_no_older_one():
    def copies(*steps):
        records = tuple(saved(step + 1, step=step) for step in steps)
        return {"copies": (CopyLocation(directory="/archive", scan=scan_at(90), checkpoints=records),)}

    assert resuming_from_put_back(**copies(30, 40)) == []
    assert len(resuming_from_put_back(**copies(30, 40, 48))) == 1


def test_a_restart_from_an_older_file_is_not_resuming():
    (finding,) = resuming(saved(40, step=40), saved(50, step=50), saved(80, step=50), **from_step(40, 40))
    assert finding.evidence["resumed_from"] == f"{RUN.directory}/step-40.pt"
    assert finding.evidence["should_resume_from"] == f"{RUN.directory}/step-50.pt"


@pytest.mark.parametrize("certainty", [Certainty.PROVEN, Certainty.DECLARED, Certainty.INFERRED])
def test_a_start_over_without_progress_to_compare_is_not_resuming_where_it_is_proven(certainty):
    """An image of DMTCP tells which computation it is of, and no step."""
    images = [saved(minute, name=f"dmtcp_restart_script_{minute}.sh", role=Role.STATE) for minute in (40, 50, 80)]
    findings = resuming(*images, certainty=certainty)
    assert [each.evidence["should_resume_from"] for each in findings] == (
        [f"{RUN.directory}/dmtcp_restart_script_50.sh"] if certainty is Certainty.PROVEN else []
    )


@pytest.mark.parametrize(("seconds", "reached"), [(0.5, 60), (1.5, 50)])
def test_what_was_saved_within_the_second_of_an_end_is_the_work_of_the_attempt_before(seconds, reached):
    """Slurm states whole seconds; the next job of a chain may have started within the same one."""
    late = saved(60 + seconds / 60, step=60)
    attempts = (attempt(0, 60, cause=EndCause.TIME_LIMIT), attempt(60, job_id=2, kind=RestartKind.RESUBMIT))
    given = history(
        now=80, jobs=[job(2)], attempts=attempts, checkpoints=[saved(50, step=50), late, saved(70, step=10)]
    )
    [finding] = NotResuming().evaluate(given, at(80))
    assert finding.evidence["saved_before"] == reached


def test_a_restart_that_goes_back_after_it_resumed_is_resuming():
    assert resuming(saved(50, step=50), saved(70, step=60), saved(80, step=45), **from_step(50, 50)) == []


def test_samples_beside_the_checkpoints_show_no_restart():
    """Checkpoints are rare; samples are written more often, and count from zero after a restart."""
    states = [saved(50, step=50, role=Role.STATE)]
    samples = [saved(70 + n, name=f"samples/sample_{n}.npz", step=n, role=Role.DATA) for n in range(5)]
    assert resuming(*states, *samples, **from_step(50, 50)) == []
    assert list(NotResuming().evaluate(history(attempts=REQUEUED, checkpoints=[*states, *samples]), at(90))) == []


def test_a_backup_that_gromacs_makes_with_its_first_save_is_no_step_back():
    """What was saved last before the restart was lost with the disk of its node; the backup is of what was loaded."""
    before = saved(40, name="state.cpt", step=300, gone=90), saved(50, name="state.cpt", step=325, gone=63)
    after = saved(80, name="state.cpt", step=375), saved(80.01, name="state_prev.cpt", step=300)
    assert not list(NotResuming().evaluate(history(now=90, attempts=REQUEUED, checkpoints=[*before, *after]), at(90)))


def test_it_resolves_when_the_run_has_caught_up():
    checkpoints = [saved(50, step=50), saved(80, step=10), saved(200, step=51)]
    assert not list(NotResuming().evaluate(history(now=201, attempts=REQUEUED, checkpoints=checkpoints), at(201)))


def test_resuming_from_the_newest_good_one_is_right_after_a_later_one_was_damaged():
    attempts = [attempt(0, 60), attempt(62, restart_count=1)]
    checkpoints = [saved(40, step=40), saved(50, step=50, state=CheckpointState.DAMAGED), saved(80, step=45)]
    assert only(NotResuming(), history(now=90, attempts=attempts, checkpoints=checkpoints), 90) is None


def test_nothing_is_told_of_a_restart_once_what_was_saved_before_it_is_no_longer_at_hand():
    attempts = [attempt(0, 60), attempt(62, restart_count=1)]
    after = history(now=90, attempts=attempts, checkpoints=[saved(80, step=1)], is_truncated=True)
    assert isinstance(NotResuming().evaluate(after, at(90)), Unknown)
    thrice = [attempt(20 * n, 20 * n + 18, restart_count=n) for n in range(3)]
    loop = history(attempts=thrice, checkpoints=[saved(70)], is_truncated=True)
    assert isinstance(RestartLoop().evaluate(loop, at(90)), Unknown)
