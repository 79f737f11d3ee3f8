"""Reads checkpoints of runs with plain SQL."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from ckptd.core.model import Checkpoint, RecordedCheckpoint, RunKey
from ckptd.core.rows.stored_checkpoints import RowContext, SharedAttempts, key_of_path, shorten_path
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import CONTENT, JOB_KEY, RECORD, decode_any, list_numbers
from ckptd.store.recorded_rows import RecordedRows, decode_row
from ckptd.store.row_values import split
from ckptd.store.run_rows import find_runs

REMEMBERED_COUNT = 256  # deleted checkpoints of a run that are read with those that are there

_CHECKPOINTS = f"""
SELECT c.run_id, {JOB_KEY.of("j")}, a.restart_count, {RECORD.of("c")}, {CONTENT.of("c")}
FROM checkpoints c LEFT JOIN attempts a ON c.attempt_id = a.id LEFT JOIN jobs j ON a.job_row = j.id
WHERE {{condition}}
"""  # noqa: S608 - the columns are this package's own
_PRESENT = "c.run_id IN ({runs}) AND c.deleted_at IS NULL"
_DELETED_ALIKE = """
c.run_id = {run} AND c.deleted_at IS NOT NULL AND c.path_key IN ({keys}) AND c.modified_at BETWEEN :oldest AND :newest
"""
_NEWEST_GONE = """
c.run_id IN ({runs}) AND c.id IN (
    SELECT id FROM (
        SELECT id, row_number() OVER (PARTITION BY run_id ORDER BY deleted_at DESC, id DESC) AS place
        FROM checkpoints WHERE run_id IN ({runs}) AND deleted_at IS NOT NULL
    ) gone WHERE place <= :count
)
"""


def read_recorded(select: Select, keys: Collection[RunKey]) -> dict[RunKey, tuple[RecordedCheckpoint, ...]]:
    """Return the present checkpoints of these runs and their latest deleted ones, oldest first."""
    numbers = find_runs(select, keys)
    found: dict[int, list[RecordedCheckpoint]] = {}
    for chunk in split(numbers.values()):
        conditions = [_PRESENT.format(runs=list_numbers(chunk)), _NEWEST_GONE.format(runs=list_numbers(chunk))]
        found |= read_where(select, *conditions, values={"count": REMEMBERED_COUNT})
    return {key: tuple(found.get(row_id, ())) for key, row_id in numbers.items()}


def read_present(select: Select, keys: Collection[RunKey]) -> dict[RunKey, RecordedRows]:
    """Return the present checkpoints of these runs, oldest first."""
    numbers = find_runs(select, keys)
    attempts = SharedAttempts()
    found: dict[int, list[Sequence[Any]]] = defaultdict(list)
    for chunk in split(numbers.values()):
        for row in select(_CHECKPOINTS.format(condition=_PRESENT.format(runs=list_numbers(chunk))), {}):
            found[row[0]].append(row)
    contexts = {row_id: RowContext(key.directory, key.uid) for key, row_id in numbers.items()}
    return {key: RecordedRows(found[row_id], contexts[row_id], attempts) for key, row_id in numbers.items()}


def read_deleted_alike(
    select: Select, found: Mapping[RunKey, Collection[Checkpoint]]
) -> dict[RunKey, tuple[RecordedCheckpoint, ...]]:
    """Return the deleted checkpoints of these runs at the path and with the time of one that a scan found.

    They may be the same files, which are there again. Some with only such a path and such a time may be among them.
    """
    result: dict[RunKey, tuple[RecordedCheckpoint, ...]] = {}
    for run, row_id in find_runs(select, found).items():
        deleted: list[RecordedCheckpoint] = []
        for chunk in split(found[run]):
            keys = list_numbers({key_of_path(shorten_path(str(each.path), run.directory)) for each in chunk})
            times = [each.modified_at for each in chunk]
            alike = _DELETED_ALIKE.format(run=row_id, keys=keys)
            rows = read_where(select, alike, values={"oldest": min(times), "newest": max(times)})
            deleted += rows.get(row_id, ())
        result[run] = tuple(sorted(deleted, key=age_order))
    return result


def read_where(select: Select, *conditions: str, values: Mapping[str, object]) -> dict[int, list[RecordedCheckpoint]]:
    """Return the checkpoints that fulfil one of the conditions, by the row id of their run, oldest first.

    The conditions are SQL about the table `c`, and exclude one another.
    """
    attempts = SharedAttempts()
    contexts: dict[int, RowContext] = {}
    found: dict[int, list[RecordedCheckpoint]] = defaultdict(list)
    for condition in conditions:
        used = {name: value for name, value in values.items() if f":{name}" in condition}
        rows = list(select(_CHECKPOINTS.format(condition=condition), used))
        contexts |= _read_contexts(select, {row[0] for row in rows} - contexts.keys())
        for row in rows:
            found[row[0]].append(decode_row(row, contexts[row[0]], attempts))
    for each in found.values():
        each.sort(key=age_order)
    return found


def _read_contexts(select: Select, row_ids: Collection[int]) -> dict[int, RowContext]:
    """Return what the rows of these runs leave out; not by a join, for which PostgreSQL may read all runs."""
    found: dict[int, RowContext] = {}
    for chunk in split(row_ids):
        rows = select(f"SELECT id, directory, uid FROM runs WHERE id IN ({list_numbers(chunk)})", {})  # noqa: S608
        found |= {row_id: RowContext(decode_any(directory), uid) for row_id, directory, uid in rows}
    return found


def age_order(recorded: RecordedCheckpoint) -> tuple[datetime, datetime, PurePosixPath]:
    """Return the key by which the checkpoints of a run are sorted, oldest first."""
    return recorded.first_seen_at, recorded.checkpoint.modified_at, recorded.checkpoint.path
