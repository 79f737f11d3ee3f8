"""Finds among the saves of one run those that lost work is measured by.

A statement about one attempt reads all checkpoints of its run. If many tasks of an array end at once that save in one
directory, this would take the product of both. So the saves are then read once, for all of these attempts.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sa

from ckptd.core.model import Attempt, CheckpointState, JobKey, Role
from ckptd.core.runs import lost_work
from ckptd.core.runs.lost_work import SavedWork
from ckptd.core.runs.ownership import WHOLE_SECOND
from ckptd.store.rows import table_of
from ckptd.store.tables import AttemptTable, CheckpointTable, JobTable

FEW = 4  # attempts of a run, each of which is asked about by statements of its own
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
        _IS_SAVE,
        CheckpointTable.state == CheckpointState.COMPLETE,
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
_ALL_SAVES = (
    sa.select(
        CheckpointTable.completed_at,
        CheckpointTable.deleted_at,
        CheckpointTable.attempt_id,
        CheckpointTable.state == CheckpointState.COMPLETE,
    )
    .where(_IS_SAVE)
    .order_by(CheckpointTable.completed_at)
)


class RunSaves(Protocol):
    """The saves of one run; data beside states are none."""

    def list_latest(self, attempt_id: int, attempt: Attempt) -> list[SavedWork]:
        """Return the latest save that counts for an ended attempt, if it has any."""

    def is_replaced(self, read_at: datetime, next_at: datetime) -> bool:
        """Whether a later attempt replaced the newest save that a scan had found, or saved where none had found any.

        Then it may have replaced newer ones, too, that no scan has found.
        """


def open_saves(connection: sa.Connection, run_id: int, attempt_count: int) -> RunSaves:
    """Return the saves of a run, for questions about so many of its attempts."""
    return _AskedSaves(connection, run_id) if attempt_count <= FEW else _ReadSaves(connection, run_id)


class _AskedSaves:
    """Saves that the database is asked for about each attempt."""

    def __init__(self, connection: sa.Connection, run_id: int) -> None:
        self._connection = connection
        self._run_id = run_id

    def list_latest(self, attempt_id: int, attempt: Attempt) -> list[SavedWork]:
        asked = {"run_id": self._run_id, "attempt_id": attempt_id}
        assert attempt.ended_at is not None
        instants = {
            "started_at": attempt.started_at,
            "ended_at": attempt.ended_at,
            "ended_second_at": attempt.ended_at + WHOLE_SECOND,
            "latest_save_at": attempt.ended_at + lost_work.LATEST_SAVE,
        }
        return [
            SavedWork(completed_at, deleted_at, None if count is None else (JobKey(*key), count))
            for completed_at, deleted_at, count, *key in self._connection.execute(_LATEST_SAVE, asked | instants)
        ]

    def is_replaced(self, read_at: datetime, next_at: datetime) -> bool:
        asked = {"run_id": self._run_id, "read_at": read_at, "next_at": next_at}
        newest = self._connection.execute(_NEWEST_AT, asked).first()
        if newest is None:
            return bool(self._connection.scalar(_SAVED_SINCE, asked))
        [deleted_at] = newest
        return deleted_at is not None


class _Save(NamedTuple):
    completed_at: datetime
    deleted_at: datetime | None
    attempt_id: int | None
    is_complete: bool  # now; it was once
    all_deleted_at: datetime  # when the last one of it and all before it was deleted

    def was_there(self, instant: datetime) -> bool:
        return self.deleted_at is None or self.deleted_at > instant


_COMPLETED_AT = attrgetter("completed_at")
_NEVER = datetime.max.replace(tzinfo=UTC)


def _join(rows: Iterable[Any]) -> Iterator[_Save]:
    """Make saves of rows, ordered by when they were complete."""
    all_deleted_at = datetime.min.replace(tzinfo=UTC)
    for completed_at, deleted_at, attempt_id, is_complete in rows:
        all_deleted_at = max(all_deleted_at, deleted_at or _NEVER)
        yield _Save(completed_at, deleted_at, attempt_id, is_complete, all_deleted_at)


class _ReadSaves:
    """Saves that are read once, ordered by when they were complete."""

    def __init__(self, connection: sa.Connection, run_id: int) -> None:
        rows: Iterable[Any] = connection.execute(_ALL_SAVES, {"run_id": run_id})
        self._all = [*_join(rows)]
        self._by_attempt: dict[int | None, list[_Save]] = defaultdict(list)
        for each in self._all:
            self._by_attempt[each.attempt_id].append(each)

    def list_latest(self, attempt_id: int, attempt: Attempt) -> list[SavedWork]:
        assert attempt.ended_at is not None
        own, of_nobody = self._by_attempt.get(attempt_id, []), self._by_attempt.get(None, [])
        before = self._all, bisect_right(self._all, attempt.ended_at, key=_COMPLETED_AT)
        late = own, bisect_right(own, attempt.ended_at + lost_work.LATEST_SAVE, key=_COMPLETED_AT)
        at_end = of_nobody, bisect_left(of_nobody, attempt.ended_at + WHOLE_SECOND, key=_COMPLETED_AT)
        found = [each for place in (before, late, at_end) if (each := _find_last(*place, attempt)) is not None]
        if not found:
            return []
        newest = max(found, key=_COMPLETED_AT)
        # whose it is makes a difference only to saves after the end
        name = (attempt.job, attempt.restart_count) if newest.attempt_id == attempt_id else None
        return [SavedWork(newest.completed_at, newest.deleted_at, name)]

    def is_replaced(self, read_at: datetime, next_at: datetime) -> bool:
        for place in range(bisect_right(self._all, read_at, key=_COMPLETED_AT) - 1, -1, -1):
            if self._all[place].was_there(read_at):
                return self._all[place].deleted_at is not None
            if self._all[place].all_deleted_at <= read_at:
                break
        return bool(self._all) and self._all[-1].completed_at > next_at


def _find_last(saves: Sequence[_Save], end: int, attempt: Attempt) -> _Save | None:
    """Return the last of the saves before a place that an attempt may have written and that was there at its end."""
    assert attempt.ended_at is not None
    for place in range(end - 1, -1, -1):
        each = saves[place]
        if each.completed_at < attempt.started_at or each.all_deleted_at <= attempt.ended_at:
            return None
        if each.is_complete and each.was_there(attempt.ended_at):
            return each
    return None
