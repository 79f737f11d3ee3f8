"""State that a restarted daemon needs in order to continue.

Most of it is derived from rows that exist for other reasons. Only the user settings and the samples of free space are
recorded for this purpose.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core import retention
from ckptd.core.job_actions.action_policy import DONE, ActionKind, read_hold
from ckptd.core.model import EndCause, FreeSpaceSample, Hold, JobKey, RunKey
from ckptd.core.runs.observations import RestartState, TimedOutAttempt
from ckptd.core.runs.user_settings import select_user_settings
from ckptd.store import runs
from ckptd.store.end_rows import EndReader, read_ends
from ckptd.store.engine import select_through
from ckptd.store.row_values import decode_free_space
from ckptd.store.rows import (
    ATTEMPT_COLUMNS,
    JOB_COLUMNS,
    JOB_FIELDS,
    RUN_KEY_COLUMNS,
    attempt_from_row,
    job_from_row,
    run_key,
    split,
    table_of,
    without_index,
)
from ckptd.store.tables import AttemptTable, AuditTable, JobTable, RunTable
from ckptd.store.transactions import StorePart, reading


class RestartStateStore(StorePart, EndReader):
    """State of the daemon before its restart."""

    @reading
    def read(
        self, connection: sa.Connection, cluster: str, *, ended_since: datetime, timed_out_since: datetime
    ) -> RestartState:
        """Return what a restarted daemon needs to know.

        Ends and holds since `ended_since`, attempts that their limit ended since the other instant, and free space.
        """
        return RestartState(
            ends=read_ends(select_through(connection), cluster, ended_since),
            timed_out=_read_timed_out(connection, cluster, timed_out_since),
            free_space_samples=_read_free_space(connection, cluster),
            holds=_read_holds(connection, cluster, ended_since),
        )


def _read_timed_out(connection: sa.Connection, cluster: str, since: datetime) -> dict[RunKey, TimedOutAttempt]:
    rows = connection.execute(
        sa.select(*JOB_COLUMNS, JobTable.first_seen_at, *RUN_KEY_COLUMNS, *ATTEMPT_COLUMNS)
        .join(AttemptTable, AttemptTable.job_row == JobTable.id)
        .join(RunTable, AttemptTable.run_id == RunTable.id)
        .where(
            without_index(JobTable.cluster) == cluster,
            AttemptTable.cause == EndCause.TIME_LIMIT,
            AttemptTable.ended_at >= since,
        )
        .order_by(AttemptTable.ended_at, AttemptTable.id)
    )
    found: dict[RunKey, TimedOutAttempt] = {}
    for row in rows:
        job = job_from_row(row)
        first_seen_at, *rest = list(row)[len(JOB_FIELDS) :]
        found[run_key(rest)] = TimedOutAttempt(
            job, attempt_from_row(JobKey(cluster, job.job_id, first_seen_at), rest[3:])
        )
    return found


def _read_holds(connection: sa.Connection, cluster: str, since: datetime) -> list[tuple[JobKey, Hold]]:
    rows = connection.execute(
        sa.select(AuditTable.plan_id, AuditTable.details)
        .where(
            AuditTable.cluster == cluster,
            AuditTable.action == ActionKind.HOLD.value,
            AuditTable.outcome == DONE,
            AuditTable.begun_at >= since,
        )
        .order_by(AuditTable.id)
    )
    found = (read_hold(cluster, name or "", str(details.get("word", ""))) for name, details in rows)
    return [hold for hold in found if hold is not None]


def _open_runs(cluster: str) -> sa.ColumnElement[bool]:
    open_runs = sa.select(JobTable.run_id).where(JobTable.cluster == cluster, JobTable.ended_at.is_(None))
    return RunTable.id.in_(open_runs)


def _read_free_space(connection: sa.Connection, cluster: str) -> dict[RunKey, tuple[FreeSpaceSample, ...]]:
    columns: list[Any] = [*RUN_KEY_COLUMNS, RunTable.free_space_samples]
    rows = connection.execute(sa.select(*columns).where(_open_runs(cluster), RunTable.free_space_samples.is_not(None)))
    return {run_key(row): decode_free_space(row[3]) for row in rows}


def record_free_space(connection: sa.Connection, samples_by_row: Mapping[int, Sequence[FreeSpaceSample]]) -> None:
    """Write the samples of the free space at runs' directories, by row, without a new revision of the runs."""
    table = table_of(RunTable)
    values = [
        {"key_id": row_id, "free_space_samples": [[sample.at.timestamp(), sample.free_bytes] for sample in samples]}
        for row_id, samples in samples_by_row.items()
    ]
    if values:
        connection.execute(sa.update(table).where(table.c.id == sa.bindparam("key_id")), values)


def record_user_settings(connection: sa.Connection, settings: Iterable[tuple[int, str, Mapping[str, Any]]]) -> None:
    """Write what owners say of runs, by row and by the directory in which they say so.

    For rules and acts the last word counts; what is about keeping stands beside what the run's jobs say in other
    directories. Of a file that could not be read only that is added: what it said before is still the best known.
    """
    by_row: dict[int, list[tuple[str, Mapping[str, Any]]]] = defaultdict(list)
    for row_id, settings_directory, table in settings:
        by_row[row_id].append((settings_directory, table))
    changed = []
    for chunk in split(by_row):
        rows = connection.execute(
            sa.select(RunTable.id, RunTable.retention_settings, RunTable.user_settings).where(RunTable.id.in_(chunk))
        )
        for row_id, kept, known in rows.all():
            keeping, meant = kept, known
            for settings_directory, table in by_row[row_id]:
                keeping = _as_json(retention.join_retention_settings(keeping or {}, settings_directory, table))
                meant = _as_json(select_user_settings(table, meant or {}, retention.KEYS_ABOUT_KEEPING))
            if repr((kept, known)) != repr((keeping, meant)):  # repr, because a number in it may be none
                values = {"retention_settings": keeping, "user_settings": meant}
                connection.execute(sa.update(RunTable).where(RunTable.id == row_id).values(**values))
                changed.append(row_id)
    runs.touch_runs(connection, changed)


def _as_json(entries: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the entries as JSON gives them back; None where there are none."""
    found: dict[str, Any] = json.loads(json.dumps(entries, default=str, sort_keys=True))
    return found or None
