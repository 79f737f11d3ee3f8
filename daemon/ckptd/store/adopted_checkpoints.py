"""Copies what the other parts of a run recorded of its checkpoints, when this part scans the directory instead of them.

Without it, a checkpoint that a job on another cluster wrote would look as new as the first scan from here, and one that
was deleted before that scan would be unknown. Files are compared without their device, which differs between clients of
one file system. Rows of the other parts are not changed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from ckptd.core.rows.packed_members import unpack_members
from ckptd.store.bulk_inserts import insert_rows
from ckptd.store.engine import select_through
from ckptd.store.row_values import decode_summed
from ckptd.store.rows import split, table_of
from ckptd.store.run_parts import find_parts
from ckptd.store.tables import CheckpointTable, RunTable

_TABLE = table_of(CheckpointTable)
_MERGED = ("first_seen_at", "started_writing_at", "completed_at", "attempt_id", "is_pinned")


class _Change(NamedTuple):
    """New rows of one run, and new values of its rows by their row ids."""

    new: list[dict[str, Any]]
    merged: dict[int, dict[str, Any]]


def adopt(connection: sa.Connection, run_ids: Collection[int], gone_count: int) -> list[int]:
    """Add to these runs what their other parts recorded of checkpoints; return the runs with news.

    A run that was never scanned is left out, because its rows would be taken for those of its own scans. Checkpoints
    are left out that are older than those that it has summed up, and deleted ones that are older than `gone_count` of
    its own: it would forget them again.
    """
    parts = find_parts(select_through(connection), run_ids)
    changed: list[int] = []
    for run_id, others in parts.items():
        columns = sa.select(RunTable.scanned_at, RunTable.problems, RunTable.summed_checkpoints)
        scanned_at, problems, summed = connection.execute(columns.where(RunTable.id == run_id)).one()
        if scanned_at is None:
            continue
        since = _find_oldest_kept(connection, run_id, gone_count)
        theirs = _read_unknown(connection, run_id, others, since)
        if (sums := decode_summed(summed)) is not None:
            theirs = [row for row in theirs if row["first_seen_at"] > sums.last_seen_at]
        found = _compare(connection, run_id, theirs, None if problems else scanned_at)
        insert_rows(connection, _TABLE, found.new)
        for row_id, values in found.merged.items():
            connection.execute(sa.update(_TABLE).where(_TABLE.c.id == row_id).values(**values))
        if found.new or found.merged:
            changed.append(run_id)
    return changed


def _find_oldest_kept(connection: sa.Connection, run_id: int, gone_count: int) -> datetime | None:
    """Return when the oldest deleted checkpoint was deleted that this run keeps; None: it keeps all of them."""
    is_gone = (_TABLE.c.run_id == run_id) & _TABLE.c.deleted_at.is_not(None)
    newest_first = sa.select(_TABLE.c.deleted_at).where(is_gone).order_by(_TABLE.c.deleted_at.desc())
    return connection.scalar(newest_first.offset(gone_count - 1).limit(1))


def _read_unknown(
    connection: sa.Connection, run_id: int, others: Collection[int], since: datetime | None
) -> list[dict[str, Any]]:
    """Return the rows of the other parts that this one does not have, oldest first.

    Of deleted checkpoints, only those that were deleted after `since`.
    """
    own = _TABLE.alias()
    is_known = sa.exists().where(
        own.c.run_id == run_id,
        own.c.path_key == _TABLE.c.path_key,
        own.c.path == _TABLE.c.path,
        own.c.format == _TABLE.c.format,
        own.c.first_seen_at == _TABLE.c.first_seen_at,
    )
    statement = sa.select(_TABLE).where(_TABLE.c.run_id.in_(others), ~is_known)
    if since is not None:
        statement = statement.where(_TABLE.c.deleted_at.is_(None) | (_TABLE.c.deleted_at > since))
    rows = connection.execute(statement.order_by(_TABLE.c.first_seen_at, _TABLE.c.id))
    return [dict(row) for row in rows.mappings()]


def _compare(
    connection: sa.Connection, run_id: int, theirs: Iterable[dict[str, Any]], read_at: datetime | None
) -> _Change:
    """Compare rows with this run's; what no scan from here found, as of `read_at`, is gone; None: not all was read."""
    own: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for chunk in split({row["path_key"] for row in theirs}):
        rows = connection.execute(
            sa.select(_TABLE).where(_TABLE.c.run_id == run_id, _TABLE.c.path_key.in_(chunk)).order_by(_TABLE.c.id)
        )
        for known in rows.mappings():
            own[known["path"], known["format"]].append(dict(known))
    found = _Change([], {})
    for row in theirs:
        mine = own[row["path"], row["format"]]
        same = next((each for each in mine if _is_same(each, row)), None)
        if same is not None:
            values = _merge(same, row)
            if any(values[name] != same[name] for name in _MERGED):
                same |= values
                if "id" in same:
                    found.merged[same["id"]] = values
        elif row["deleted_at"] is not None or (read_at is not None and row["first_seen_at"] <= read_at):
            copy = {name: value for name, value in row.items() if name != "id"}
            copy |= {"run_id": run_id, "deleted_at": row["deleted_at"] or read_at, "pruned_at": None}
            found.new.append(copy)
            mine.append(copy)
    return found


def _merge(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of one checkpoint that two parts recorded; who saw it first knows its writer better."""
    first, second = sorted((mine, theirs), key=lambda row: row["first_seen_at"])
    values = {name: first[name] if first[name] is not None else second[name] for name in _MERGED}
    completed = [row["completed_at"] for row in (first, second) if row["completed_at"] is not None]
    return values | {
        "completed_at": min(completed, default=None),
        "is_pinned": mine["is_pinned"] or theirs["is_pinned"],
    }


def _is_same(mine: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Whether two rows of one path are about the same files."""
    if (mine["modified_at"], mine["size_bytes"]) != (theirs["modified_at"], theirs["size_bytes"]):
        return False
    return _list_files(mine) == _list_files(theirs)


def _list_files(row: dict[str, Any]) -> list[tuple[int, int, int]]:
    _, identities = unpack_members(row["members"], row["path"], row["modified_at"], row["size_bytes"])
    return [(each.inode, each.size_bytes, each.modified_ns) for each in identities]
