"""Reads what an attempt had saved when it ended, and when its directory was last read before the next began."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

import sqlalchemy as sa

from ckptd.core.model import Attempt
from ckptd.core.runs import lost_work
from ckptd.core.runs.lost_work import SavedWork
from ckptd.core.runs.redone_work import LATENESS
from ckptd.core.runs.saved_state import SavedState
from ckptd.store import saved_states
from ckptd.store.run_saves import RunSaves


class _LastRead(NamedTuple):
    """The last whole scan that saw a directory as an attempt left it, and whether a later one replaced its saves."""

    read_at: datetime | None
    is_replaced: bool = False


def find_last_read(
    saved: RunSaves,
    attempt: Attempt,
    scanned_at: datetime | None,
    known_at: datetime | None,
    starts: list[datetime],
) -> _LastRead:
    """Return what `scanned_at`, the last whole scan, adds to what was known of an attempt's saves before it."""
    assert attempt.ended_at is not None
    earliest = max(attempt.ended_at - LATENESS, attempt.started_at + timedelta(microseconds=1))
    place = bisect_left(starts, earliest)
    if scanned_at is None:
        return _LastRead(known_at)
    seen = _LastRead(max(known_at or scanned_at, scanned_at))
    if place == len(starts) or scanned_at <= starts[place]:
        return seen
    known_until = known_at or attempt.started_at
    if saved.is_replaced(known_until, starts[place]):
        return _LastRead(known_at, is_replaced=True)
    is_long = attempt.ended_at - known_until > lost_work.LONGEST_UNREAD  # so that saves may have come and gone
    return _LastRead(known_at) if is_long else seen


def read_copied_saves(connection: sa.Connection, run_ids: Collection[int]) -> dict[int, list[SavedState]]:
    """Return the states that only further locations of these runs have any more; only of runs that have any.

    A copy that is known to differ from its original saves no work.
    """
    found: dict[int, list[SavedState]] = {}
    copied = saved_states.find_copy_rows(connection, run_ids)
    own = saved_states.read_saved_states(connection, copied)
    differing = saved_states.find_differing(connection, copied)
    for run_id, copies in copied.items():
        found[run_id] = saved_states.read_copied_states(connection, copies, own[run_id], differing.get(run_id, ()))
    return found


def list_there(states: Iterable[SavedState], attempt: Attempt) -> Iterator[SavedWork]:
    """Yield the copies that were there when an attempt ended."""
    assert attempt.ended_at is not None
    for each in states:
        if (each.appeared_at or each.completed_at) <= attempt.ended_at:
            yield SavedWork(each.completed_at, each.deleted_at, each.attempt, each.is_state)
