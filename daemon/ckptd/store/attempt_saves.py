"""Reads what an attempt had saved when it ended, and when its directory was last read before the next began."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from ckptd.core.model import Attempt, CheckpointState, JobKey, Role
from ckptd.core.runs import lost_work
from ckptd.core.runs.lost_work import SavedWork
from ckptd.core.runs.ownership import WHOLE_SECOND
from ckptd.core.runs.redone_work import LATENESS
from ckptd.core.runs.saved_state import SavedState
from ckptd.store import saved_states
from ckptd.store.rows import table_of
from ckptd.store.tables import AttemptTable, CheckpointTable, JobTable

_KEY_COLUMNS: list[Any] = [JobTable.cluster, JobTable.job_id, JobTable.first_seen_at]


def _instant(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, type_=CheckpointTable.completed_at.type)


_OTHER = table_of(CheckpointTable).alias()
_HAS_STATE = sa.exists().where(
    _OTHER.c.run_id == sa.bindparam("run_id"), _OTHER.c.role == Role.STATE, _OTHER.c.completed_at.is_not(None)
)
_IS_SAVE = (
    (CheckpointTable.run_id == sa.bindparam("run_id"))
    & CheckpointTable.completed_at.is_not(None)
    & ((CheckpointTable.role == Role.STATE) | ~_HAS_STATE)  # data beside states save no work
)
# the newest save that was there at an instant
_NEWEST_AT = (
    sa.select(CheckpointTable.deleted_at)
    .where(
        _IS_SAVE,
        CheckpointTable.completed_at <= _instant("read_at"),
        CheckpointTable.deleted_at.is_(None) | (CheckpointTable.deleted_at > _instant("read_at")),
    )
    .order_by(CheckpointTable.completed_at.desc())
    .limit(1)
)
_SAVED_SINCE = sa.select(sa.literal(1)).where(_IS_SAVE, CheckpointTable.completed_at > _instant("next_at")).limit(1)
# only the latest save that counts for each attempt: a run may have a thousand attempts with thousands of saves each
_LATEST_SAVE = (
    sa.select(CheckpointTable.completed_at, CheckpointTable.deleted_at, AttemptTable.restart_count, *_KEY_COLUMNS)
    .outerjoin(AttemptTable, CheckpointTable.attempt_id == AttemptTable.id)
    .outerjoin(JobTable, AttemptTable.job_row == JobTable.id)
    .where(
        CheckpointTable.run_id == sa.bindparam("run_id"),
        CheckpointTable.state == CheckpointState.COMPLETE,
        (CheckpointTable.role == Role.STATE) | ~_HAS_STATE,  # data beside states save no work
        CheckpointTable.completed_at >= _instant("started_at"),
        CheckpointTable.deleted_at.is_(None) | (CheckpointTable.deleted_at > _instant("ended_at")),
        (CheckpointTable.completed_at <= _instant("ended_at"))
        | (CheckpointTable.attempt_id.is_(None) & (CheckpointTable.completed_at < _instant("ended_second_at")))
        | (
            (CheckpointTable.attempt_id == sa.bindparam("attempt_id"))
            & (CheckpointTable.completed_at <= _instant("latest_save_at"))
        ),
    )
    .order_by(CheckpointTable.completed_at.desc())
    .limit(1)
)


class _LastRead(NamedTuple):
    """The last whole scan that saw a directory as an attempt left it, and whether a later one replaced its saves."""

    read_at: datetime | None
    is_replaced: bool = False


def find_last_read(
    connection: sa.Connection,
    run_id: int,
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
    if _is_replaced(connection, run_id, known_until, starts[place]):
        return _LastRead(known_at, is_replaced=True)
    is_long = attempt.ended_at - known_until > lost_work.LONGEST_UNREAD  # so that saves may have come and gone
    return _LastRead(known_at) if is_long else seen


def _is_replaced(connection: sa.Connection, run_id: int, read_at: datetime, next_at: datetime) -> bool:
    """Whether a later attempt replaced the newest save that a scan had found, or saved where none had found any.

    Then it may have replaced newer ones, too, that no scan has found.
    """
    asked = {"run_id": run_id, "read_at": read_at, "next_at": next_at}
    newest = connection.execute(_NEWEST_AT, asked).first()
    if newest is None:
        return bool(connection.scalar(_SAVED_SINCE, asked))
    [deleted_at] = newest
    return deleted_at is not None


def read_saves(connection: sa.Connection, run_id: int, attempt_id: int, attempt: Attempt) -> list[SavedWork]:
    """Return the latest save that counts for an attempt, if it has any."""
    asked = {"run_id": run_id, "attempt_id": attempt_id}
    assert attempt.ended_at is not None
    instants = {
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "ended_second_at": attempt.ended_at + WHOLE_SECOND,
        "latest_save_at": attempt.ended_at + lost_work.LATEST_SAVE,
    }
    return [
        SavedWork(completed_at, deleted_at, None if count is None else (JobKey(*key), count))
        for completed_at, deleted_at, count, *key in connection.execute(_LATEST_SAVE, asked | instants)
    ]


def read_copied_saves(connection: sa.Connection, run_ids: Collection[int]) -> dict[int, list[SavedState]]:
    """Return the states that only further locations of these runs have any more; only of runs that have any."""
    found: dict[int, list[SavedState]] = {}
    copied = saved_states.find_copy_rows(connection, run_ids)
    own = saved_states.read_saved_states(connection, copied)
    for run_id, copies in copied.items():
        found[run_id] = saved_states.read_copied_states(connection, copies, own[run_id])
    return found


def list_there(states: Iterable[SavedState], attempt: Attempt) -> Iterator[SavedWork]:
    """Yield the copies that were there when an attempt ended."""
    assert attempt.ended_at is not None
    for each in states:
        if (each.appeared_at or each.completed_at) <= attempt.ended_at:
            yield SavedWork(each.completed_at, each.deleted_at, each.attempt, each.is_state)
