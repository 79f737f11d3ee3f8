"""A clock that is set under the daemon neither opens nor resolves flags; real trouble is flagged after the pause."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.model import JobState
from ckptd.steps.clock_pause import PAUSE
from steps.replayed_fleet import minute
from support.checkpoint_bytes import npz_state

STATE = npz_state(epoch=1)
OVERDUE = ("checkpoint-overdue", 1)
PAUSE_MINUTES = PAUSE // timedelta(minutes=1)


@pytest.fixture
def saving(fleet):
    """A job that has saved every five minutes for 25 minutes, by a clock that was not set."""
    fleet.jump = 0.0  # minutes by which the clock is ahead
    fleet.passed = 0.0

    def read_elapsed():
        return timedelta(minutes=fleet.passed)

    fleet.parts = replace(fleet.parts, runner=replace(fleet.parts.runner, read_elapsed=read_elapsed))
    for passed in range(0, 30, 5):
        if passed:
            fleet.save(f"ck/step_{passed}.npz", passed - 0.5, STATE)
        look(fleet, passed, fleet.job())
    return fleet


def look(fleet, passed, *jobs):
    """Run the steps so many minutes after the start; return the open flags about saving."""
    fleet.passed = passed
    found = fleet.run(passed + fleet.jump, *jobs)
    return [flag for flag in found if flag != ("too-frequent", 1)]


def test_a_clock_set_forward_makes_no_checkpoint_overdue(saving):
    saving.jump = 180
    assert look(saving, 26) == []
    saving.save("ck/step_30.npz", 29.5 + saving.jump, STATE)
    assert look(saving, 30) == []
    for passed in range(35, 35 + PAUSE_MINUTES, 5):
        saving.save(f"ck/step_{passed}.npz", passed - 0.5 + saving.jump, STATE)
        assert look(saving, passed) == []


def test_a_clock_set_back_resolves_no_flag(saving):
    assert look(saving, 55) == [OVERDUE]
    saving.jump = -30
    assert look(saving, 56) == [OVERDUE]
    assert look(saving, 60) == [OVERDUE]


def test_two_jumps_end_in_one_pause_that_begins_with_the_last(saving):
    saving.jump = 180
    assert look(saving, 26) == []
    saving.jump = 300
    assert look(saving, 26 + PAUSE_MINUTES - 1) == []
    assert look(saving, 26 + PAUSE_MINUTES + 5) == []
    assert look(saving, 26 + 2 * PAUSE_MINUTES) == [OVERDUE]


def test_a_job_that_does_hang_is_flagged_after_the_pause(saving):
    saving.jump = 180
    assert look(saving, 26) == []
    assert look(saving, 26 + PAUSE_MINUTES) == [OVERDUE]


def test_what_a_wrong_time_opened_is_resolved_after_the_pause(saving):
    """Though nothing was saved since then, and nothing else changed."""
    assert look(saving, 150) == [OVERDUE]
    saving.jump = -180
    assert look(saving, 151) == [OVERDUE]
    assert look(saving, 151 + PAUSE_MINUTES) == []


def test_the_flags_of_a_job_that_ends_are_resolved_during_the_pause(saving):
    assert look(saving, 55) == [OVERDUE]
    saving.jump = 180
    assert look(saving, 56) == [OVERDUE]
    ended = saving.job(state=JobState.COMPLETED, ends_at=minute(57 + saving.jump))
    assert look(saving, 58, ended) == []


def test_a_jump_of_less_than_five_minutes_pauses_nothing(saving):
    saving.jump = 4
    assert look(saving, 42) == [OVERDUE]
