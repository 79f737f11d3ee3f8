"""Saved work that is computed again, by what later attempts resumed from."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.model import Certainty, EndCause, Resume, ResumeCandidate, ResumeReason, Suspension
from ckptd.core.runs import redone_work
from ckptd.core.runs.resumed_from import find_resume
from ckptd.present.resume_texts import describe_resume
from core.histories import at, attempt
from core.histories import saved as checkpoint
from support.resume_facts import list_states

FRESH = Resume(certainty=Certainty.INFERRED, reason=ResumeReason.PROGRESS)
NOT_SAVED = Resume(certainty=Certainty.UNKNOWN, reason=ResumeReason.NOT_SAVED, may_be_fresh=True)
LOST_SIGHT = Resume(certainty=Certainty.UNKNOWN, reason=ResumeReason.CONTRADICTION, may_be_fresh=True)


def from_minute(minute, certainty=Certainty.INFERRED):
    return Resume(certainty=certainty, reason=ResumeReason.PROGRESS, path=f"/{minute}", saved_at=at(minute))


def one_of(*minutes, may_be_fresh=False):
    return Resume(
        certainty=Certainty.UNKNOWN,
        reason=ResumeReason.AMBIGUOUS,
        candidates=tuple(ResumeCandidate(f"/{minute}", at(minute)) for minute in minutes),
        may_be_fresh=may_be_fresh,
    )


def redone(*resumes, saved=(50,), ends=None, **changes):
    """Bounds in minutes of each ended attempt: they start at 0, 100, 200 ... and end an hour later, the last runs."""
    attempts = [replace(attempt(0, 60), **changes)]
    for number, resume in enumerate(resumes, 1):
        end = None if number == len(resumes) else number * 100 + 60
        attempts.append(replace(attempt(number * 100, end, restart_count=number), resumed_from=resume))
    names = [(each.job, each.restart_count) for each in attempts if each.ended_at]
    minutes = [*saved, *[None] * len(names)][: len(names)]
    found = redone_work.measure_redone(
        attempts, dict(zip(names, [None if minute is None else at(minute) for minute in minutes], strict=True))
    )
    return [(in_minutes(found[name].low), in_minutes(found[name].high), found[name].certainty) for name in names]


def in_minutes(duration):
    return None if duration is None else duration / timedelta(minutes=1)


SURE = Certainty.INFERRED
UNKNOWN = (None, None, Certainty.UNKNOWN)


@pytest.mark.parametrize(
    ("resumes", "bounds"),
    [
        pytest.param([], (0, 0, SURE), id="nobody followed"),
        pytest.param([from_minute(50)], (0, 0, SURE), id="its last checkpoint was loaded"),
        pytest.param([from_minute(20)], (30, 30, SURE), id="an older checkpoint was loaded"),
        pytest.param([from_minute(20, Certainty.PROVEN)], (30, 30, Certainty.PROVEN), id="by the program's record"),
        pytest.param([from_minute(-5)], (50, 50, SURE), id="one from before it was loaded"),
        pytest.param([FRESH], (50, 50, SURE), id="the next started from the beginning"),
        pytest.param([one_of(20, 30)], (20, 30, SURE), id="one of two: a bound"),
        pytest.param([one_of(20, may_be_fresh=True)], (30, 50, SURE), id="one, or nothing: a bound"),
        pytest.param([NOT_SAVED], UNKNOWN, id="the next has not saved yet"),
        pytest.param([LOST_SIGHT], UNKNOWN, id="nobody knows what the next loaded"),
        pytest.param([None], UNKNOWN, id="the directory of the next is not known"),
        pytest.param([NOT_SAVED, from_minute(50)], (0, 0, SURE), id="one that saved nothing lies between"),
        pytest.param([FRESH, from_minute(50)], (0, 0, SURE), id="a later one came back to it"),
        pytest.param([LOST_SIGHT, from_minute(20)], (0, 30, SURE), id="one that nobody knows may have used more"),
        pytest.param([from_minute(40), from_minute(150)], (10, 10, SURE), id="used through the one between"),
        pytest.param([FRESH, from_minute(150)], (50, 50, SURE), id="the one between did not use it"),
    ],
)
def test_saved_work_after_the_point_that_later_attempts_build_on_is_redone(resumes, bounds):
    assert redone(*resumes)[0] == bounds


def test_the_work_of_a_start_over_is_redone_once_an_older_checkpoint_is_loaded_again():
    assert redone(FRESH, from_minute(50), saved=(50, 150)) == [(0, 0, SURE), (50, 50, SURE)]


def test_copies_of_one_save_make_no_difference():
    assert redone(from_minute(50 - 0.1))[0] == (0, 0, SURE)


def test_completed_work_is_not_redone():
    assert redone(FRESH, cause=EndCause.COMPLETED)[0] == (0, 0, SURE)


def test_what_was_not_saved_is_no_saved_work():
    assert redone(FRESH, saved=(None,))[0] == (0, 0, SURE)


def test_suspension_is_no_work():
    assert redone(FRESH, suspensions=(Suspension(at(10), at(25)),))[0] == (35, 35, SURE)


def test_work_of_jobs_that_ran_at_once_is_nobodys():
    assert redone(FRESH, ended_at=at(150))[0] == UNKNOWN


@pytest.mark.parametrize(
    ("loaded", "lost"),
    [
        pytest.param(None, 100, id="a wrong path"),
        pytest.param(2, 60, id="an older file"),
        pytest.param(5, 0, id="the right file"),
    ],
)
def test_restarts_that_do_not_resume_lose_what_was_saved(loaded, lost):
    """Five saves of 20 minutes each; what is inferred from the first one after the restart is the truth."""
    epochs = [checkpoint(20 * n, name=f"epoch_{n}.pt", epoch=n) for n in range(1, 6)]
    own = checkpoint(140, name=f"epoch_{(loaded or 0) + 1}.pt", epoch=(loaded or 0) + 1)
    attempts = [attempt(0, 110), attempt(120, restart_count=1)]
    attempts = [
        replace(each, resumed_from=find_resume(each, attempts, list_states([*epochs, own]))) for each in attempts
    ]
    name = (attempts[0].job, 0)
    found = redone_work.measure_redone(attempts, {name: at(100)})[name]
    assert (in_minutes(found.low), in_minutes(found.high)) == (lost, lost)


@pytest.mark.parametrize(
    ("before", "own", "bounds"),
    [
        pytest.param("cv/fold_0/epoch_{}.pt", "cv/fold_1/epoch_{}.pt", (0, 100), id="the next fold"),
        pytest.param("cv/fold0_epoch{}.pt", "cv/fold1_epoch{}.pt", (0, 100), id="the next fold, in one directory"),
        pytest.param("pretrain/epoch_{}.pt", "finetune/epoch_{}.pt", (0, 100), id="the next phase"),
        pytest.param("out/lr0/epoch_{}.pt", "out/lr1/epoch_{}.pt", (0, 100), id="the next of a sweep"),
        pytest.param("ck/step-{}.pt", "ck/other-{}.pt", (100, 100), id="another word in the same directory"),
        pytest.param("cv/fold_0/epoch_{}.pt", "cv/fold_0/epoch_{}.pt", (100, 100), id="the same fold again"),
        pytest.param("runs/run_1/epoch_{}.pt", "runs/run_2/epoch_{}.pt", (100, 100), id="a directory for each start"),
        pytest.param("out-4711/epoch_{}.pt", "out-4712/epoch_{}.pt", (100, 100), id="a directory for each job"),
        pytest.param("epoch-{}/model.pt", "epoch-{}/model.pt", (100, 100), id="a directory for each save"),
    ],
)
def test_work_of_another_name_is_redone_at_most(before, own, bounds):
    epochs = [checkpoint(20 * n, name=before.format(n), epoch=n) for n in range(1, 6)]
    anew = [checkpoint(120 + 20 * n, name=own.format(n), epoch=n) for n in range(1, 3)]
    attempts = [attempt(0, 110, job_id=4711), attempt(120, job_id=4712)]
    attempts = [
        replace(each, resumed_from=find_resume(each, attempts, list_states([*epochs, *anew]))) for each in attempts
    ]
    name = (attempts[0].job, 0)
    found = redone_work.measure_redone(attempts, {name: at(100)})[name]
    assert (in_minutes(found.low), in_minutes(found.high)) == bounds


def test_work_of_another_name_is_not_said_to_have_started_from_nothing():
    epochs = [checkpoint(20 * n, name=f"pre/epoch_{n}.pt", epoch=n) for n in range(1, 6)]
    attempts = [attempt(0, 110), attempt(120, restart_count=1)]
    states = list_states([*epochs, checkpoint(140, name="ft/epoch_1.pt", epoch=1)])
    found = find_resume(attempts[1], attempts, states)
    assert describe_resume(found, "/") == (
        "nothing, or an unknown checkpoint: its first checkpoint was epoch 1, 20 min after the start, "
        "and no checkpoint before it had a name like that"
    )
    assert found.may_be_fresh
    assert len(found.candidates) == 5
