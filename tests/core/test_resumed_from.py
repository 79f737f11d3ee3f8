"""What attempts resumed from: by progress alone, and by the job's word."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.model import Certainty, EndCause, ResumeReason, Role, Suspension
from ckptd.core.model.resume_json import decode_resume, encode_resume
from ckptd.present.resume_texts import describe_resume, resume_row
from core.histories import RUN, at, attempt, saved
from core.resume_cases import (
    EPOCHS,
    FIRST,
    PROGRESS,
    SECOND,
    STATE,
    again,
    every,
    name_of,
    resume,
    said,
)


@pytest.mark.parametrize("loaded", [1, 2, 3, 4, 5])
def test_it_resumed_from_what_lies_one_interval_before_its_first_checkpoint(loaded):
    assert said(resume(*EPOCHS, again(loaded + 1))) == (*PROGRESS, f"epoch_{loaded}.pt")


def test_a_first_checkpoint_as_early_as_the_first_of_the_run_comes_of_a_start_from_nothing():
    found = resume(*EPOCHS, again(1))
    assert said(found) == (*PROGRESS, None)
    assert found.is_fresh
    assert found.candidates == ()


def test_counting_from_zero_makes_no_difference():
    epochs = every(2, count=5, first=0)
    assert said(resume(*epochs, again(0))) == (*PROGRESS, None)
    assert said(resume(*epochs, again(1))) == (*PROGRESS, "epoch_0.pt")


def test_slow_startup_is_learned_from_the_attempts_before():
    """Each start takes three minutes before the first epoch, of one minute."""
    epochs = every(1, count=5, start=3)
    assert said(resume(*epochs, again(3, minute=4))) == (*PROGRESS, "epoch_2.pt")
    assert said(resume(*epochs, again(6, minute=4))) == (*PROGRESS, "epoch_5.pt")
    assert said(resume(*epochs, again(1, minute=4))) == (*PROGRESS, None)


@pytest.mark.parametrize("loaded", [3, 4, 5])
def test_startup_that_was_slow_once_may_be_fast_the_next_time(loaded):
    """The first start read its libraries from disk for three minutes; the next one finds them in memory."""
    epochs = every(1, count=5, start=3)
    assert said(resume(*epochs, again(loaded + 1, minute=1.5))) == (*PROGRESS, f"epoch_{loaded}.pt")


def test_after_fast_startup_it_may_have_saved_at_once_what_it_loaded():
    """The first start saved what it began with after two minutes, so that the second one may have done so, too."""
    steps = every(1, "step", count=5, start=1, first=0, by=100)
    found = resume(*steps, saved(12.1, name="again_300.pt", step=300, **STATE))
    assert {each.path.rpartition("/")[2] for each in found.candidates} == {"step_200.pt", "step_300.pt"}
    assert said(found) == (Certainty.UNKNOWN, ResumeReason.AMBIGUOUS, None)


def test_in_an_odd_phase_what_lies_between_the_interval_and_the_time_is_a_candidate():
    """Step 250 after 90 s where 100 steps take 60 s: it began between 100 and 150."""
    steps = [*every(1, "step", count=2, first=100, by=100), saved(2.5, name="step_150.pt", step=150, **STATE)]
    found = resume(*steps, saved(12.5, name="step_250.pt", step=250, **STATE))
    assert said(found) == (Certainty.UNKNOWN, ResumeReason.AMBIGUOUS, None)
    assert {each.path.rpartition("/")[2] for each in found.candidates} == {"step_100.pt", "step_150.pt"}
    assert not found.may_be_fresh


# a job that saves each minute, on a node that others slow down
UNEVEN = [
    saved(minute, name=f"step_{step}.pt", step=step, **STATE)
    for minute, step in enumerate([631, 1085, 1789, 2755, 3104, 3478, 4618, 5466], 1)
]


@pytest.mark.parametrize("step", [5466 + 396, 5466 + 850, 5466 + 1130])
def test_uneven_progress_leaves_what_it_reached_at_some_time_among_the_candidates(step):
    found = resume(*UNEVEN, saved(12, name=f"step_{step}.pt", step=step, **STATE))
    assert "step_5466.pt" in {each.path.rpartition("/")[2] for each in found.candidates}
    assert found.reason in {ResumeReason.PROGRESS, ResumeReason.AMBIGUOUS}
    assert name_of(found) in {None, "step_5466.pt"}
    assert not found.may_be_fresh


def test_the_job_is_believed_where_uneven_progress_can_be_what_it_says():
    own = saved(12, name="step_5862.pt", step=5862, **STATE)
    found = resume(*UNEVEN, own, declared=f"{RUN.directory}/step_5466.pt")
    assert said(found) == (Certainty.DECLARED, ResumeReason.JOB, "step_5466.pt")


def test_the_job_is_believed_where_it_gets_on_at_one_of_two_speeds():
    """Its steps take 0.04 s or 0.05 s, and 0.2 s or 0.3 s while another job uses the same disk."""
    steps = [1200, 2700, 3900, 4200, 5400, 6900, 7100, 8300]
    before = [saved(minute, name=f"step_{step}.pt", step=step, **STATE) for minute, step in enumerate(steps, 1)]
    found = resume(
        *before,
        saved(12, name="step_8600.pt", step=8600, **STATE),
        declared=f"{RUN.directory}/step_8300.pt",
    )
    assert said(found) == (Certainty.DECLARED, ResumeReason.JOB, "step_8300.pt")


def test_uneven_progress_still_tells_a_start_from_nothing():
    assert said(resume(*UNEVEN, saved(12, name="step_400.pt", step=400, **STATE))) == (*PROGRESS, None)


def test_lammps_that_starts_over_and_writes_the_same_step_again_did_not_resume():
    """One restart file per attempt, at step 20000 each time."""
    first = saved(8, name="poly.restart", step=20_000, gone=19, **STATE)
    again = saved(11 + 8, name="poly.restart", step=20_000, **STATE)
    assert said(resume(first, again)) == (*PROGRESS, None)


def test_gromacs_that_saves_at_odd_steps_is_followed_through_one_name():
    """state.cpt by time: the step is another one at each save."""
    steps = [(1, 980), (2, 2010), (3, 2990)]
    before = [saved(m, name="state.cpt", step=step, gone=m + 1, **STATE) for m, step in steps]
    last, previous = saved(4, name="state.cpt", step=4020, gone=12, **STATE), replace(before[-1], deleted_at=at(12))
    continued = saved(12, name="state.cpt", step=5010, **STATE)
    started_over = saved(12, name="state.cpt", step=1015, **STATE)
    attempts = (attempt(0, 4.5), SECOND)
    assert resume(*before[:-1], previous, last, continued, attempts=attempts).saved_at == at(4)
    assert resume(*before[:-1], previous, last, started_over, attempts=attempts).is_fresh


def test_suspended_time_is_no_progress():
    stopped = replace(SECOND, suspensions=(Suspension(at(12), at(16)),))
    assert said(resume(*EPOCHS, again(4, minute=6), attempts=(FIRST, stopped))) == (*PROGRESS, "epoch_3.pt")


@pytest.mark.parametrize(("epoch", "loaded"), [(6, "epoch_5.pt"), (4, "epoch_2.pt")])
def test_a_larger_batch_makes_fewer_steps_of_each_epoch(epoch, loaded):
    """Epoch 6 at step 3000 goes on with epoch 5 at step 5000, where steps alone say epoch 2; epoch 4 does not."""
    before = [saved(2 * n, name=f"epoch_{n}.pt", epoch=n, step=1000 * n, **STATE) for n in range(1, 6)]
    found = resume(*before, saved(13, name="larger.pt", epoch=epoch, step=3000, **STATE))
    assert said(found) == (*PROGRESS, loaded)


def test_of_a_file_and_the_name_that_the_next_save_gives_it_the_former_was_loaded():
    """NAMD renames out.restart to out.restart.old and saves anew, both with the times of their saves."""
    before = [saved(2 * n, name="out.restart", step=100 * n, gone=2 * n + 2, **STATE) for n in range(1, 5)]
    last = saved(10, name="out.restart", step=500, gone=13, **STATE)
    renamed = saved(10, name="out.restart.old", step=500, **STATE)
    found = resume(*before, last, renamed, saved(13, name="out.restart", step=600, **STATE))
    assert said(found) == (*PROGRESS, "out.restart")


def test_of_copies_of_one_progress_the_newest_is_named_and_all_are_candidates():
    last = saved(10, name="last.pt", epoch=5, **STATE)
    best = saved(10.1, name="best.pt", epoch=5, **STATE)
    found = resume(*EPOCHS, last, replace(best, completed_at=at(10)), again(6))
    assert name_of(found) == "last.pt"
    assert [path.rpartition("/")[2] for path in found.equals] == ["best.pt", "epoch_5.pt"]
    assert {each.path.rpartition("/")[2] for each in found.candidates} == {"epoch_5.pt", "last.pt", "best.pt"}


def test_a_copy_of_the_same_save_is_named_beside_the_one_that_was_loaded():
    latest = saved(10, name="checkpoint_latest.pt", epoch=5, **STATE)
    found = resume(*EPOCHS, latest, again(6))
    assert (name_of(found), found.equals) == ("epoch_5.pt", (f"{RUN.directory}/checkpoint_latest.pt",))
    assert describe_resume(found, RUN.directory).startswith(
        "epoch_5.pt or checkpoint_latest.pt, which are at the same epoch, probably: "
    )
    best = saved(10, name="best.pt", epoch=5, **STATE)
    found = resume(*EPOCHS, latest, best, again(6))
    assert describe_resume(found, RUN.directory).startswith(
        "epoch_5.pt, best.pt or checkpoint_latest.pt, which are at the same epoch, probably: "
    )
    assert decode_resume(encode_resume(found)) == found
    assert resume_row(found, RUN.directory)["equals"] == list(found.equals)


def test_many_copies_of_the_same_save_are_counted():
    copies = [saved(10, name=f"copy_{letter}.pt", epoch=5, **STATE) for letter in "abcdef"]
    found = resume(*EPOCHS, *copies, again(6))
    assert len(found.equals) == 6
    assert describe_resume(found, RUN.directory).startswith(
        "epoch_5.pt, copy_a.pt, copy_b.pt or one of 4 more, which are at the same epoch, probably: "
    )


def test_what_another_attempt_saved_at_the_same_progress_is_no_copy_of_the_same_save():
    own = replace(EPOCHS[-1], attempt=(FIRST.job, 0))
    other = replace(saved(9, name="other.pt", epoch=5, **STATE), attempt=(FIRST.job, 7))
    found = resume(*EPOCHS[:-1], own, other, again(6))
    assert (name_of(found), found.equals) == ("epoch_5.pt", ())
    assert len(found.candidates) == 2


def test_what_differs_in_the_step_is_no_copy_of_the_same_save():
    before = [replace(each, checkpoint=replace(each.checkpoint, step=100 * n)) for n, each in enumerate(EPOCHS, 1)]
    later = saved(10, name="in_epoch.pt", epoch=5, step=450, **STATE)
    found = resume(*before, later, again(6, step=600))
    assert found.equals == ()


def test_the_candidates_hold_what_does_not_state_its_progress():
    unstated = saved(10, name="model.pt", **STATE)
    assert any(each.path.endswith("model.pt") for each in resume(*EPOCHS, unstated, again(6)).candidates)


def test_what_it_saves_at_once_is_what_it_loaded():
    found = resume(*EPOCHS, again(4, minute=0.1))
    assert said(found) == (*PROGRESS, "epoch_4.pt")
    assert describe_resume(found, RUN.directory).endswith("6 s after the start, the progress of that one")


def test_data_beside_the_checkpoints_says_nothing():
    samples = [saved(11.1 + n / 10, name=f"sample_{n}.npz", step=n, role=Role.DATA) for n in range(5)]
    assert said(resume(*EPOCHS, *samples, again(6))) == (*PROGRESS, "epoch_5.pt")


def test_nothing_was_there():
    found = resume(attempts=(FIRST,))
    assert said(found) == (Certainty.INFERRED, ResumeReason.EMPTY, None)


def test_nothing_is_claimed_of_a_directory_that_was_not_read():
    found = resume(attempts=(FIRST,), is_read=False)
    assert said(found) == (Certainty.UNKNOWN, ResumeReason.NOT_READ, None)


UNKNOWN = [
    pytest.param([], ResumeReason.NOT_SAVED, id="it has saved nothing"),
    pytest.param([again(None)], ResumeReason.NO_PROGRESS, id="no progress is told"),
    pytest.param([again(300)], ResumeReason.CONTRADICTION, id="further than it can have come"),
]


@pytest.mark.parametrize(("own", "reason"), UNKNOWN)
def test_what_the_progress_does_not_tell_stays_unknown_with_every_candidate(own, reason):
    found = resume(*EPOCHS, *own)
    assert said(found) == (Certainty.UNKNOWN, reason, None)
    assert len(found.candidates) == len(EPOCHS)
    assert found.may_be_fresh


def test_two_jobs_in_one_directory_leave_it_unknown():
    other = attempt(11.5, job_id=2)
    found = resume(*EPOCHS, again(6), attempts=(FIRST, other, SECOND))
    assert said(found) == (Certainty.UNKNOWN, ResumeReason.CONCURRENT, None)


def test_without_a_rate_it_stays_unknown():
    found = resume(saved(-5, epoch=4, name="epoch_4.pt", **STATE), again(5), attempts=(SECOND,))
    assert said(found) == (Certainty.UNKNOWN, ResumeReason.NO_RATE, None)


# the job's word


def test_the_job_is_believed_before_its_first_checkpoint():
    path = f"{RUN.directory}/epoch_3.pt"
    assert said(resume(*EPOCHS, declared=path)) == (Certainty.DECLARED, ResumeReason.JOB, "epoch_3.pt")


def test_the_job_is_believed_where_its_progress_agrees():
    path = f"{RUN.directory}/epoch_3.pt"
    assert resume(*EPOCHS, again(4), declared=path).certainty is Certainty.DECLARED


def test_the_job_is_not_believed_where_its_progress_contradicts_it():
    found = resume(*EPOCHS, again(1), declared=f"{RUN.directory}/epoch_5.pt")
    assert said(found) == (*PROGRESS, None)
    assert "the job says that it loaded epoch_5.pt" in describe_resume(found, RUN.directory)


def test_a_declared_file_names_the_set_that_it_is_in():
    path = f"{RUN.directory}/epoch_3.pt/model.safetensors"
    assert resume(*EPOCHS, declared=path).saved_at == at(6)


def test_a_declared_checkpoint_may_be_nowhere_on_record():
    found = resume(*EPOCHS, declared="/elsewhere/base.pt")
    assert (found.path, found.saved_at) == ("/elsewhere/base.pt", None)


# texts


@pytest.mark.parametrize(
    ("own", "text"),
    [
        (
            [again(6)],
            "epoch_5.pt, probably: its first checkpoint was epoch 6, 2 min after the start, 1 epoch after that one",
        ),
        (
            [again(1)],
            (
                "nothing, probably: its first checkpoint was epoch 1, 2 min after the start, as after a "
                "start without a checkpoint"
            ),
        ),
        ([], "nothing, or an unknown checkpoint: it has not completed a checkpoint of its own"),
        (
            [again(300)],
            (
                "an unknown checkpoint: its first checkpoint was epoch 300, 2 min after the start, which no "
                "checkpoint that existed then explains"
            ),
        ),
    ],
)
def test_the_text_says_how_sure_it_is_and_why(own, text):
    assert describe_resume(resume(*EPOCHS, *own), RUN.directory) == text


# truths of simulated trainings


@given(
    count=st.integers(2, 12),
    loaded=st.integers(0, 12),
    minutes=st.floats(0.5, 30),
    startup=st.floats(0, 20),
    startup_again=st.none() | st.floats(0, 20),  # None: much as before
    jitter=st.lists(st.floats(0.93, 1.07), min_size=14, max_size=14),
)
def test_what_is_said_for_sure_is_true(count, loaded, minutes, startup, startup_again, jitter):
    """A training that saves each epoch, is ended after some, and loads one of them or none."""
    loaded = min(loaded, count)
    now, records = startup, []
    startup_later = startup * jitter[12] if startup_again is None else startup_again
    for n in range(count):
        now += minutes * jitter[n]
        records.append(saved(now, name=f"epoch_{n + 1}.pt", epoch=n + 1, **STATE))
    first = attempt(0, now + minutes / 3, cause=EndCause.TIME_LIMIT)
    second = attempt(now + minutes, restart_count=1)
    own = saved(
        now + minutes + startup_later + minutes * jitter[13],
        name=f"epoch_{loaded + 1}.pt",
        epoch=loaded + 1,
        **STATE,
    )
    found = resume(*records, own, attempts=(first, second))
    truth = f"epoch_{loaded}.pt" if loaded else None
    if found.is_known:
        assert name_of(found) == truth
    elif truth is None:
        assert found.may_be_fresh
    else:
        assert truth in {each.path.rpartition("/")[2] for each in found.candidates}
    # intervals are known to be regular, and startup does not hide them
    if count > 2 and startup <= minutes and startup_again is None:
        assert found.is_known


def test_a_day_of_waiting_in_the_queue_changes_nothing():
    late = replace(SECOND, started_at=at(11) + timedelta(days=1))
    own = again(4)
    own = replace(own, completed_at=own.completed_at + timedelta(days=1))
    assert said(resume(*EPOCHS, own, attempts=(FIRST, late))) == (*PROGRESS, "epoch_3.pt")


def test_a_file_that_was_overwritten_before_the_start_is_one_candidate_with_what_it_held_last():
    """The scan that sees that it was overwritten comes after the start, so that both contents are on record."""
    before = saved(4, name="last.pt", step=200, gone=12, **STATE)
    after = saved(9, name="last.pt", step=450, **STATE)
    found = resume(before, after, saved(8, name="best.pt", step=400, **STATE))
    assert [told(each) for each in found.candidates] == [("best.pt", at(8)), ("last.pt", at(9))]


def told(candidate):
    return candidate.path.rpartition("/")[2], candidate.saved_at
