"""Copies that fall behind, by the history alone; tests/steps/test_several_locations.py sees real files."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.health.copy_behind import CopyBehind
from ckptd.core.model import CopyLocation
from core.histories import at, history, job, saved, scan_at

KEPT = 64  # checkpoints of a run that its history holds
EVERY = 20  # minutes between two saves, of which each tenth is copied
DAY = 24 * 60


def make_copies(*minutes):
    """The checkpoints of these minutes, copied when they were written."""
    return CopyLocation(directory="/archive", scan=scan_at(0), checkpoints=tuple(saved(minute) for minute in minutes))


def judge(now, copies):
    saves = [saved(minute) for minute in range(EVERY, now + 1, EVERY)][-KEPT:]
    [*found] = CopyBehind().evaluate(history(now=now, checkpoints=saves, copies=(copies,), jobs=[job()]), at(now))
    return found


@pytest.mark.parametrize("stopped_after", [1600, 2000])
def test_copies_that_stop_are_behind_though_the_saves_of_the_time_before_are_not_held_any_more(stopped_after):
    copies = make_copies(*range(200, stopped_after + 1, 200))
    opened = [now for now in range(stopped_after, stopped_after + DAY, EVERY) if judge(now, copies)]
    assert opened == list(range(stopped_after + 600 + EVERY, stopped_after + DAY, EVERY))
    [finding] = judge(stopped_after + DAY - EVERY, copies)
    assert abs(finding.evidence["usual_seconds"] - timedelta(minutes=200).total_seconds()) <= EVERY * 60


def test_copies_at_their_usual_pace_are_never_behind_however_many_saves_are_held():
    for now in range(700, 3000, EVERY):
        assert judge(now, make_copies(*range(200, now + 1, 200))) == []


def test_copies_that_always_lag_are_behind_by_what_is_usual():
    """Each is copied only 200 minutes after it was written."""
    for now in range(900, 3000, 3 * EVERY):
        made = [(minute, minute + 200) for minute in range(EVERY, now - 199, EVERY)]
        records = [replace(saved(minute), first_seen_at=at(seen)) for minute, seen in made][-KEPT:]
        assert judge(now, CopyLocation(directory="/archive", scan=scan_at(0), checkpoints=tuple(records))) == []
