"""Reads the states of a run: of its primary location, and those that only a further location has any more.

A copy whose original is still there is the same state, and says nothing new.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

import sqlalchemy as sa

from ckptd.core.model import CheckpointState, JobKey, RecordedCheckpoint, Role
from ckptd.core.rows.stored_checkpoints import SharedAttempts, complete_path, read_continuation
from ckptd.core.runs import compared_content
from ckptd.core.runs.saved_state import SavedState
from ckptd.store import checkpoint_rows
from ckptd.store.engine import select_through
from ckptd.store.location_tables import LocationTable
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import CHECKPOINT_WORDS, JOB_KEY, Columns, decode_any, list_numbers
from ckptd.store.rows import ROW_IDS, split
from ckptd.store.tables import AttemptTable, CheckpointTable, JobTable, RunTable

STATE_COUNT = 1000  # latest checkpoints of one run, which tell how fast it gets on
MAX_COPIES = 1000  # latest ones in its further locations
ROUNDING = timedelta(seconds=2)  # of times of modification on other file systems

_OWN, _COPY = sa.orm.aliased(RunTable), sa.orm.aliased(RunTable)
_PAIRS = (
    sa.select(LocationTable.run_id, _COPY.id, LocationTable.is_earlier)
    .join(_OWN, _OWN.id == LocationTable.run_id)
    .join(
        _COPY,
        (_COPY.directory_hash == LocationTable.directory_hash)
        & (_COPY.cluster == _OWN.cluster)
        & (_COPY.uid == _OWN.uid),
    )
    .where(LocationTable.trouble.is_(None), LocationTable.is_absent.is_not(True))
)
_PAIRS_BY_COPY, _PAIRS_BY_RUN = _PAIRS.where(_COPY.id.in_(ROW_IDS)), _PAIRS.where(LocationTable.run_id.in_(ROW_IDS))

_STATE = Columns(("path", "completed_at", "deleted_at", "step", "epoch", "role", "details", "format"), CHECKPOINT_WORDS)
# plain SQL: it reads up to a thousand rows of each run with every save until it is clear what the attempt loaded
_STATES = f"""
SELECT c.run_id, r.directory, a.restart_count, {JOB_KEY.of("j")}, {_STATE.of("c")}
FROM (
    SELECT id, row_number() OVER (PARTITION BY run_id ORDER BY completed_at DESC, id) AS place
    FROM checkpoints WHERE run_id IN ({{runs}}) AND completed_at IS NOT NULL
) ranked
JOIN checkpoints c ON c.id = ranked.id JOIN runs r ON r.id = c.run_id
LEFT JOIN attempts a ON a.id = c.attempt_id LEFT JOIN jobs j ON j.id = a.job_row
WHERE ranked.place <= :count
"""  # noqa: S608 - the columns are this package's own


class FurtherRow(NamedTuple):
    """The row id of a further location of a run, and whether earlier starts of the run saved there."""

    row_id: int
    is_earlier: bool


class CopyOccurrence(NamedTuple):
    """A checkpoint in the location with this row id, from when it was first seen."""

    row_id: int
    path: str
    first_seen_at: datetime


def find_primary_rows(connection: sa.Connection, row_ids: Collection[int]) -> list[int]:
    """Return the row ids of the runs that have one of these as a further location."""
    found: dict[int, None] = {}
    for chunk in split(row_ids):
        found.update(dict.fromkeys(run_id for run_id, *_ in connection.execute(_PAIRS_BY_COPY, {"row_ids": chunk})))
    return list(found)


def find_copy_rows(connection: sa.Connection, row_ids: Collection[int]) -> dict[int, list[FurtherRow]]:
    """Return the further locations of these runs, by the row id of the run; only of runs that have any."""
    found: dict[int, list[FurtherRow]] = defaultdict(list)
    for chunk in split(row_ids):
        for run_id, row_id, is_earlier in connection.execute(_PAIRS_BY_RUN, {"row_ids": chunk}):
            found[run_id].append(FurtherRow(row_id, is_earlier))
    return found


def read_saved_states(connection: sa.Connection, run_ids: Collection[int]) -> dict[int, list[SavedState]]:
    """Return the latest states that were complete once in the primary location of each run, in any order."""
    found: dict[int, list[SavedState]] = {run_id: [] for run_id in run_ids}
    for chunk in split(found):
        for run_id, state in _read_states(select_through(connection), chunk):
            found[run_id].append(state)
    return found


def _read_states(select: Select, run_ids: Collection[int]) -> Iterator[tuple[int, SavedState]]:
    attempts = SharedAttempts()
    rows = select(_STATES.format(runs=list_numbers(run_ids)), {"count": STATE_COUNT})
    for run_id, directory, restarts, *values in rows:
        writer, written = values[: len(JOB_KEY)], values[len(JOB_KEY) :]
        path, completed_at, deleted_at, step, epoch, role, details, name = _STATE.decode(written)
        attempt = None if restarts is None else attempts.share(JobKey(*JOB_KEY.decode(writer)), restarts)
        yield (
            run_id,
            SavedState(
                path=complete_path(path, decode_any(directory)),
                completed_at=completed_at,
                deleted_at=deleted_at,
                step=step,
                epoch=epoch,
                attempt=attempt,
                is_state=role is Role.STATE,
                format=name,
                **read_continuation(details),
            ),
        )


def read_copied_states(
    connection: sa.Connection,
    copy_rows: Sequence[FurtherRow],
    own: Iterable[SavedState],
    left_out: Collection[CopyOccurrence] = (),
) -> list[SavedState]:
    """Return the states in a run's further locations that its primary one, with the states `own`, has no longer.

    What earlier starts saved in another directory is no copy of anything.
    """
    if not copy_rows:
        return []
    rows = connection.execute(
        sa.select(
            CheckpointTable.run_id,
            RunTable.directory,
            CheckpointTable.path,
            CheckpointTable.completed_at,
            CheckpointTable.deleted_at,
            CheckpointTable.step,
            CheckpointTable.epoch,
            CheckpointTable.role,
            CheckpointTable.first_seen_at,
            AttemptTable.restart_count,
            JobTable.cluster,
            JobTable.job_id,
            JobTable.first_seen_at,
        )
        .join(RunTable, CheckpointTable.run_id == RunTable.id)
        .outerjoin(AttemptTable, CheckpointTable.attempt_id == AttemptTable.id)
        .outerjoin(JobTable, AttemptTable.job_row == JobTable.id)
        .where(
            CheckpointTable.run_id.in_([each.row_id for each in copy_rows]), CheckpointTable.completed_at.is_not(None)
        )
        .where(CheckpointTable.state == CheckpointState.COMPLETE)
        .order_by(CheckpointTable.completed_at.desc(), CheckpointTable.id)
        .limit(MAX_COPIES)
    ).all()
    originals: dict[tuple[str, float | None, float | None], list[SavedState]] = defaultdict(list)
    for each in own if rows else ():
        originals[_name(each)].append(each)
    earlier = {each.row_id for each in copy_rows if each.is_earlier}
    found = []
    for row_id, directory, path, completed_at, deleted_at, step, epoch, role, first_seen_at, count, *key in rows:
        assert completed_at is not None
        writer = None if count is None else (JobKey(*key), count)  # known where earlier starts of the run saved
        place, is_state = complete_path(path, directory), role is Role.STATE
        if CopyOccurrence(row_id, place, first_seen_at) in left_out:
            continue
        copy = SavedState(place, completed_at, deleted_at, step, epoch, writer, is_state=is_state)
        mine = [] if row_id in earlier else originals.get(_name(copy), [])
        state = _without_original(copy, first_seen_at, mine)
        found += [] if state is None else [state]
    return found


def find_differing(
    connection: sa.Connection, by_run: Mapping[int, Sequence[FurtherRow]]
) -> dict[int, set[CopyOccurrence]]:
    """Return the copies in the further locations of runs that are known to differ from a checkpoint of the run."""
    further = {each.row_id: run_id for run_id, rows in by_run.items() for each in rows if not each.is_earlier}
    compared: dict[int, list[RecordedCheckpoint]] = {}
    for chunk in split(further):
        condition = f"c.run_id IN ({list_numbers(chunk)}) AND c.comparisons IS NOT NULL"
        compared |= checkpoint_rows.read_where(select_through(connection), condition, values={})
    runs = {run_id for run_id, rows in by_run.items() if any(each.row_id in compared for each in rows)}
    asked = runs | {each.row_id for run_id in runs for each in by_run[run_id]}
    directories: dict[int, str] = {}
    for chunk in split(asked):
        found = connection.execute(sa.select(RunTable.id, RunTable.directory).where(RunTable.id.in_(chunk)))
        directories.update((row_id, directory) for row_id, directory in found)
    differing: dict[int, set[CopyOccurrence]] = {}
    for run_id in runs:
        own = [directories[run_id], *(directories[each.row_id] for each in by_run[run_id] if each.is_earlier)]
        differing[run_id] = {
            CopyOccurrence(each.row_id, str(copy.checkpoint.path), copy.first_seen_at)
            for each in by_run[run_id]
            for copy in compared.get(each.row_id, ())
            if compared_content.differs_within(own, copy)
        }
    return differing


def _name(state: SavedState) -> tuple[str, float | None, float | None]:
    return state.path.rpartition("/")[2], state.step, state.epoch


def _without_original(copy: SavedState, seen_at: datetime, originals: Iterable[SavedState]) -> SavedState | None:
    """Return a copy from when its original was gone, dated and credited as that; None while the original is there."""
    earlier = [each for each in originals if each.completed_at <= copy.completed_at + ROUNDING]
    original = max(earlier, key=lambda each: each.completed_at, default=None)
    if original is None:
        return copy
    if original.deleted_at is None or (copy.deleted_at is not None and copy.deleted_at <= original.deleted_at):
        return None
    return replace(
        copy,
        completed_at=original.completed_at,
        attempt=original.attempt,
        appeared_at=max(original.deleted_at, seen_at),
    )
