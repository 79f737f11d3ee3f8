"""How often to save, and that it is told what that rests on."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.forecast.optimum import daly_optimum, mean_time_between_interruptions
from ckptd.core.forecast.save_advice import advise
from ckptd.core.model import EndCause, InterruptionTally
from ckptd.core.runs.observations import EndTally, count_interruptions
from ckptd.present import summaries
from ckptd.present.models import run_view
from core.histories import at, attempt, history, job, saved

SAVE = timedelta(minutes=5)
SEEN = [saved(60 * number, step=number, took=5) for number in range(1, 5)]


def ended(node_count, cause, count, hours):
    return EndTally(node_count, "gpu", cause, count, timedelta(hours=hours))


ENDS = (
    ended(4, EndCause.NODE_FAILURE, 7, 100),
    ended(3, EndCause.PREEMPTION, 3, 50),
    ended(4, EndCause.COMPLETED, 20, 900),
    ended(1, EndCause.NODE_FAILURE, 5000, 100),
)


def test_what_interrupted_jobs_of_about_that_size_is_counted_and_how_long_all_of_them_ran():
    assert count_interruptions(ENDS, 4, 1000) == InterruptionTally(10, timedelta(hours=1050))
    assert count_interruptions(ENDS, 3, 1000) == count_interruptions(ENDS, 4, 1000)
    assert count_interruptions(ENDS, 500, 1000) is None


def test_the_advice_is_dalys_for_what_was_counted_or_for_the_assumption():
    large = history(jobs=[job(node_count=4)], checkpoints=SEEN)
    found = advise(large, ENDS)
    mean = mean_time_between_interruptions(InterruptionTally(10, timedelta(hours=1050)), 4)
    assert (found.interval, found.mean_time_between_interruptions) == (daly_optimum(SAVE, mean), mean)
    alone = advise(large, ())
    assert alone.tally is None
    assert alone.interval == daly_optimum(SAVE, mean_time_between_interruptions(None, 4))


def test_a_run_that_has_ended_is_as_large_as_its_last_attempt_was():
    over = history(jobs=[], attempts=[replace(attempt(0, 300), node_count=3)], checkpoints=SEEN)
    assert advise(over, ENDS).node_count == 3


def test_without_a_save_that_was_seen_being_written_nothing_is_advised():
    view = run_view(history(checkpoints=[saved(60, step=1)]), (), at(90), (), ENDS)
    assert view["advice"] is None
    assert "not known yet" in summaries.describe_advice(view["advice"])


@pytest.mark.parametrize(
    ("nodes", "ends", "said"),
    [
        (1, (), "(an assumption: no job on one node has ended yet)"),
        (
            4,
            ENDS[1:2],
            "estimated from 3 interruptions in 2 d 2 h of run time of jobs on about 4 nodes, and a general assumption)",
        ),
        (
            4,
            ENDS[2:3],
            "from 0 interruptions in 37 d 12 h of run time of jobs on about 4 nodes, and a general assumption)",
        ),
    ],
)
def test_it_is_said_where_the_numbers_come_from(nodes, ends, said):
    view = run_view(history(jobs=[job(node_count=nodes)], checkpoints=SEEN), (), at(250), (), ends)
    assert summaries.describe_advice(view["advice"]).endswith(said)


def unsaved(high_seconds):
    return {"unsaved": {"high_seconds": high_seconds}, "redone": None}


LOSS = {
    "lost_seconds": 3900,
    "lost_node_seconds": 7800,
    "lost_cpu_seconds": 249_600,
    "lost_gpu_seconds": 0,
    "is_loss_final": True,
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "1 h 5 min unsaved (2.2 node-hours, 69.3 CPU-hours)"),
        ({"is_loss_final": False}, "1 h 5 min unsaved (2.2 node-hours, 69.3 CPU-hours), not final"),
        ({"lost_seconds": 0}, "nothing"),
        ({"lost_seconds": None}, "-"),
        ({"lost_seconds": 0, "lost": unsaved(3900)}, "unknown, up to 1 h 5 min unsaved"),
        ({"lost_seconds": 600, "lost": unsaved(3900)}, "10 min to 1 h 5 min unsaved"),
    ],
)
def test_a_loss_is_told_in_time_and_times_what_the_attempt_held(changes, said):
    assert summaries.describe_loss(LOSS | changes) == said


def test_the_losses_of_a_run_say_of_which_attempts_nothing_is_known():
    redone = {"low_seconds": 600, "high_seconds": 600, "unknown_count": 2}
    lost = {"seconds": 60, "high_seconds": 60, "node_seconds": 0, "cpu_seconds": 0, "gpu_seconds": 0, "redone": redone}
    assert summaries.describe_losses(lost).split("; ") == [
        "1 min unsaved",
        "about 10 min of saved work computed again",
        "unknown for 2 attempts whether saved work is computed again",
    ]
    unlocated = lost | {"seconds": 0, "high_seconds": 120, "redone": redone | {"high_seconds": 0, "unknown_count": 0}}
    assert summaries.describe_losses(unlocated) == "unknown, up to 2 min unsaved"


LIMIT = {"will_be_lost_seconds": None, "saves_that_fit": None, "epochs_that_fit": None, "steps_that_fit": None}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        (
            {"will_be_lost_seconds": 60, "saves_that_fit": 1},
            "if it runs until its time limit, about 1 min of work may be lost (1 more checkpoint expected before then)",
        ),
        (
            {"epochs_that_fit": 1, "steps_that_fit": 900},
            "1 epoch fits between its newest checkpoint and the time limit",
        ),
        ({"steps_that_fit": 900}, "900 steps fit between its newest checkpoint and the time limit"),
    ],
)
def test_what_a_limit_takes_and_what_fits_before_it_is_told_as_far_as_it_is_known(changes, said):
    assert summaries.describe_limit(LIMIT | changes) == said
