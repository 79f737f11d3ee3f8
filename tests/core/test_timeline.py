from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.model import CheckpointState, EndCause
from ckptd.present import timeline
from core.histories import at, attempt, history, job, saved


def draw(minute, **parts):
    return timeline.draw(history(now=minute, **parts), at(minute))


def losses(drawn, *, is_forecast=False):
    return [(loss.begins_at, loss.ends_at) for loss in drawn.losses if loss.is_forecast is is_forecast]


def test_a_run_without_attempts_has_no_time_line():
    assert draw(10, attempts=()) is None


@pytest.mark.parametrize(
    ("checkpoints", "expected"),
    [
        pytest.param([saved(30)], [(at(30), at(40))], id="since the newest save"),
        pytest.param([], [(at(0), at(40))], id="everything where nothing was saved"),
        pytest.param(
            [saved(20), saved(35, state=CheckpointState.DAMAGED)], [(at(20), at(40))], id="a damaged save saves nothing"
        ),
        pytest.param([saved(30, gone=50)], [(at(30), at(40))], id="what was replaced later counted then"),
    ],
)
def test_an_attempt_that_ended_early_lost_its_work_since_the_newest_usable_save(checkpoints, expected):
    drawn = draw(60, attempts=[attempt(0, 40), attempt(45, restart_count=1)], checkpoints=checkpoints)
    assert losses(drawn) == expected


def test_an_attempt_that_completed_lost_nothing():
    drawn = draw(60, jobs=[], attempts=[attempt(0, 40, cause=EndCause.COMPLETED)])
    assert losses(drawn) == []


def test_of_an_old_attempt_that_nobody_saw_no_loss_is_drawn_where_its_saves_are_no_longer_at_hand():
    seen = attempt(0, 40)
    unseen = replace(seen, first_seen_at=at(50))
    saves = [saved(70)]
    for first, is_truncated, expected in (
        (seen, True, [(at(0), at(40))]),
        (unseen, True, []),
        (unseen, False, [(at(0), at(40))]),  # all that was ever there is at hand
    ):
        drawn = draw(80, attempts=[first, attempt(60, restart_count=1)], checkpoints=saves, is_truncated=is_truncated)
        assert losses(drawn) == expected


def test_the_loss_at_the_limit_runs_from_the_last_expected_save():
    running = job(ends_at=at(100))
    drawn = draw(45, jobs=[running], checkpoints=[saved(minute) for minute in (10, 20, 30, 40)])
    assert list(drawn.expected) == [at(minute) for minute in (50, 60, 70, 80, 90)]  # at the limit is too late
    assert losses(drawn, is_forecast=True) == [(at(90), at(100))]
    drawn = draw(45, jobs=[job(ends_at=at(57))], checkpoints=[saved(minute) for minute in (10, 20, 30, 40)])
    assert losses(drawn, is_forecast=True) == [(at(50), at(57))]


def test_a_limit_far_ahead_does_not_press_the_past_into_a_line():
    drawn = draw(120, jobs=[job(ends_at=at(60 * 24 * 7))])
    assert drawn.ends_at == at(240)
    assert drawn.limits[0].at == at(60 * 24 * 7)


def test_a_job_that_has_just_begun_shows_an_hour_ahead():
    assert draw(0).ends_at - at(0) == timedelta(hours=1)


@pytest.mark.parametrize(
    ("record", "fate"),
    [
        (saved(5), "complete"),
        (saved(5, gone=9), "deleted"),
        (saved(5, state=CheckpointState.DAMAGED), "damaged"),
        (saved(5, state=CheckpointState.WRITING), "writing"),
        (saved(5, state=CheckpointState.UNKNOWN), "unknown"),
    ],
)
def test_a_mark_says_what_became_of_its_checkpoint(record, fate):
    assert [mark.fate for mark in draw(10, checkpoints=[record]).marks] == [fate]
