"""Slow and refused polls are followed by longer waits."""

from datetime import timedelta

import pytest

from ckptd.core.queue import poll_pace

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("took", "refusals", "interval", "wait"),
    [
        (0, 0, 60, 60),
        (12, 0, 60, 60),
        (20, 0, 60, 100),
        (29, 0, 60, 145),
        (100, 0, 60, 300),
        (100, 0, 600, 600),  # never more often than configured
        (3, 0, 5, 15),
        (2, 0, 1, 1),
        (30, 1, 60, 150),
        (0, 1, 60, 120),
        (30, 1, 10, 150),  # a poll that timed out is no shorter than one that was slow
        (30, 2, 60, 240),
        (30, 3, 60, 300),
        (30, 1000, 60, 300),
        (30, 5, 900, 4500),
        (4, 9, 1, 20),
        (1, 9, 1, 5),
        (-5, 0, 60, 60),  # the clock was set back
    ],
)
def test_the_wait_grows_with_the_time_that_slurm_takes_and_with_refusals(took, refusals, interval, wait):
    assert poll_pace.plan_wait(took * SECOND, refusals, interval * SECOND) == wait * SECOND
