"""Lost work: one row for each ended attempt, derived from the recorded attempts and checkpoints.

A row is written in the transaction that ends its attempt. It is updated as long as a scan, a move to another run or
accounting can still change it, and is final once its run's directory was read completely after the end. A later save of
the attempt that is found after that opens it again.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import Attempt, CheckpointState, JobKey, RecordedCheckpoint, Role, RunKey
from ckptd.core.rows.stored_checkpoints import complete_path
from ckptd.core.runs import lost_work
from ckptd.core.runs.lost_work import AttemptLoss
from ckptd.core.runs.redone_work import NONE, UNKNOWN, RedoneWork, measure_redone
from ckptd.core.runs.resumable import is_meant_to_save, is_named_as_checkpoint
from ckptd.core.runs.user_settings import parse_user_settings
from ckptd.store import attempt_saves, summed_days
from ckptd.store.engine import select_through
from ckptd.store.loss_rows import LossReader
from ckptd.store.reading_jobs import find_reading_jobs
from ckptd.store.rows import ATTEMPT_COLUMNS, ROW_IDS, RUN_KEY_COLUMNS, attempt_from_row, run_key, split, table_of
from ckptd.store.run_parts import add_parts, find_parts, join_lists
from ckptd.store.run_saves import RunSaves, open_saves
from ckptd.store.tables import AttemptTable, CheckpointTable, JobTable, LossTable, RunTable
from ckptd.store.transactions import StorePart, reading
from ckptd.store.unrecognised_rows import read_possible_saves

REDONE_COUNT = 100  # latest attempts of one run whose redone work is measured again
UNSETTLED_COUNT = 500  # rows of one run without a final value that are measured again with one scan
_KEY_COLUMNS: list[Any] = [JobTable.cluster, JobTable.job_id, JobTable.first_seen_at]


def write_lines(connection: sa.Connection, run_ids: Collection[int]) -> None:
    """Write the rows of these runs' ended attempts that are missing or not final."""
    for chunk in split(run_ids):
        _write_chunk(connection, chunk)


def reopen_lines(connection: sa.Connection, attempt_ids: Collection[int]) -> None:
    """Mark the rows of these attempts as not final, so that they are updated again."""
    for chunk in split(attempt_ids):
        connection.execute(sa.update(LossTable).where(LossTable.attempt_id.in_(chunk)).values(is_final=False))


def reopen_late(connection: sa.Connection, saved: Mapping[int, datetime], run_ids: Collection[int]) -> None:
    """Mark the rows of these attempts as not final that ended before they completed a checkpoint, at that instant.

    Those of other clusters than the runs' own are left to their daemons.
    """
    own = sa.select(RunTable.cluster).where(RunTable.id.in_(run_ids))
    late: list[int] = []
    for chunk in split(saved):
        is_own = LossTable.attempt_id.in_(chunk) & LossTable.cluster.in_(own)
        ended = sa.select(LossTable.attempt_id, LossTable.ended_at).where(is_own)
        late += [attempt_id for attempt_id, ended_at in connection.execute(ended) if ended_at < saved[attempt_id]]
    reopen_lines(connection, late)


def reopen_dated(connection: sa.Connection, changed: Mapping[int, Iterable[RecordedCheckpoint]]) -> None:
    """Mark the rows of attempts as not final whose last save, one of these changed ones by run, has a later date now.

    Such a checkpoint was dated with the scan that saw it first, as long as this host's clock was behind its files.
    """
    for run_id, found in changed.items():
        cut = [each.first_seen_at for each in found if each.completed_at and each.completed_at > each.first_seen_at]
        for chunk in split(cut):
            wrong = (
                sa.select(LossTable.attempt_id)
                .join(AttemptTable, AttemptTable.id == LossTable.attempt_id)
                .where(AttemptTable.run_id == run_id, LossTable.saved_at.in_(chunk))
            )
            reopen_lines(connection, connection.scalars(wrong).all())


def reopen_found(connection: sa.Connection, appeared: Mapping[int, Iterable[RecordedCheckpoint]]) -> None:
    """Mark the rows of attempts as not final that saved one of these new checkpoints, by run, after the last known one.

    A whole scan after the end should have found it before. But where this host's clock was ahead, or something else was
    mounted there, there was none; and a save may come from a node's disk later.
    """
    saved = {run_id: [each.completed_at for each in found if each.completed_at] for run_id, found in appeared.items()}
    for chunk in split([run_id for run_id, instants in saved.items() if instants]):
        earliest = min(instant for run_id in chunk for instant in saved[run_id])
        ended = connection.execute(_FINAL_SINCE, {"row_ids": chunk, "since": earliest})
        wrong = [
            attempt_id
            for attempt_id, run_id, started_at, ended_at, saved_at in ended
            if any(started_at <= each <= ended_at and (saved_at is None or saved_at < each) for each in saved[run_id])
        ]
        reopen_lines(connection, wrong)


_FINAL_SINCE = (
    sa.select(
        LossTable.attempt_id, AttemptTable.run_id, AttemptTable.started_at, LossTable.ended_at, LossTable.saved_at
    )
    .join(AttemptTable, AttemptTable.id == LossTable.attempt_id)
    .where(AttemptTable.run_id.in_(ROW_IDS), LossTable.is_final, LossTable.ended_at >= sa.bindparam("since"))
)


def reopen_since(connection: sa.Connection, run_ids: Collection[int], instant: datetime) -> None:
    """Mark the rows of these runs' attempts that ended at an instant or later as not final."""
    for chunk in split(run_ids):
        ended = sa.select(AttemptTable.id).where(AttemptTable.run_id.in_(chunk), AttemptTable.ended_at >= instant)
        connection.execute(sa.update(LossTable).where(LossTable.attempt_id.in_(ended)).values(is_final=False))


def write_lines_of_jobs(connection: sa.Connection, job_rows: Collection[int]) -> None:
    """Write the rows of these jobs' runs; delete the rows of attempts that are open again."""
    run_ids: set[int] = set()
    for chunk in split(job_rows):
        summed_days.forget_days(connection, sa.select(AttemptTable.id).where(AttemptTable.job_row.in_(chunk)))
        reopened = sa.select(AttemptTable.id).where(AttemptTable.job_row.in_(chunk), AttemptTable.ended_at.is_(None))
        connection.execute(sa.delete(LossTable).where(LossTable.attempt_id.in_(reopened)))
        statement = sa.select(AttemptTable.run_id).where(AttemptTable.job_row.in_(chunk)).distinct()
        run_ids.update(connection.scalars(statement))
    write_lines(connection, sorted(run_ids))


def _write_chunk(connection: sa.Connection, run_ids: list[int]) -> None:
    rows = connection.execute(_OPEN, {"run_ids": run_ids, "unsettled_count": UNSETTLED_COUNT}).all()
    if not rows:
        return
    copied = attempt_saves.read_copied_saves(connection, {row[1] for row in rows})
    parts = find_parts(select_through(connection), {row[1] for row in rows})
    starts = _read_starts(connection, {row[1] for row in rows}, parts)
    doubtful = _find_possible_results(connection, {row[1] for row in rows})
    possible = read_possible_saves(connection, {row[1] for row in rows})
    readers = find_reading_jobs(connection, {row[1] for row in rows})
    counts = Counter(row[1] for row in rows)
    saved: dict[int, RunSaves] = {}
    fresh: list[dict[str, Any]] = []
    stale: list[dict[str, Any]] = []
    for row in sorted(rows, key=itemgetter(1)):
        attempt_id, run_id, is_recorded, is_located, is_looked, is_followed, scanned_at, known_at, *facts = row
        user, account, partition, *rest = facts
        attempt = attempt_from_row(JobKey(*rest[:3]), rest[3:])
        is_followed = is_followed or starts[run_id][-1] > attempt.started_at  # on another cluster
        if run_id not in saved:
            saved = {run_id: open_saves(connection, run_id, counts[run_id])}  # of one run at a time
        seen = attempt_saves.find_last_read(saved[run_id], attempt, scanned_at, known_at, starts[run_id])
        saves = saved[run_id].list_latest(attempt_id, attempt)
        saves += attempt_saves.list_there(copied.get(run_id, ()), attempt)
        if is_reader := attempt.job in readers.get(run_id, ()):
            saves = []  # they are those of other jobs, and nobody knows what this one had to lose
        loss = lost_work.measure_loss(
            attempt,
            saves,
            is_located=bool(is_located),
            is_followed=bool(is_followed),
            is_replaced=seen.is_replaced,
            read_at=seen.read_at,
        )
        is_known = loss.lost == loss.most
        has_possible = run_id in possible and possible[run_id] >= attempt.started_at
        if run_id in doubtful or is_reader or has_possible:
            loss = lost_work.as_bound(loss)  # who writes results or unknown formats may lose nothing
        values = _line_values(attempt, loss) | {"read_at": seen.read_at}
        values |= {"user": user, "account": account, "partition": attempt.partition or partition}
        values["is_final"] = bool(is_looked) and is_known
        if is_recorded:
            stale.append(values | {"key_attempt_id": attempt_id})
        else:
            fresh.append(values | _redone_values(UNKNOWN if is_followed else NONE) | {"attempt_id": attempt_id})
    table = table_of(LossTable)
    if fresh:
        connection.execute(sa.insert(LossTable), fresh)
        summed_days.forget_days(connection, [each["attempt_id"] for each in fresh])
    if stale := _select_changed(connection, stale):
        changed = [each["key_attempt_id"] for each in stale]
        summed_days.forget_days(connection, changed)
        connection.execute(sa.update(table).where(table.c.attempt_id == sa.bindparam("key_attempt_id")), stale)
        summed_days.forget_days(connection, changed)  # an end may have moved to another day
    write_redone(connection, {row[1] for row in rows})


def _select_changed(connection: sa.Connection, stale: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those that differ from their rows; each scan measures all again that are not final."""
    known: dict[int, Any] = {}
    names = [name for name in stale[0] if name != "key_attempt_id"] if stale else []
    columns: list[Any] = [getattr(LossTable, name) for name in names]
    for chunk in split(each["key_attempt_id"] for each in stale):
        rows = connection.execute(sa.select(LossTable.attempt_id, *columns).where(LossTable.attempt_id.in_(chunk)))
        known.update((row[0], list(row[1:])) for row in rows)
    return [each for each in stale if known.get(each["key_attempt_id"]) != [each[name] for name in names]]


def _find_possible_results(connection: sa.Connection, run_ids: set[int]) -> set[int]:
    """Return the runs whose files nothing shows to be checkpoints: see `resumable.may_be_results`."""
    saved = CheckpointTable.run_id == RunTable.id
    found = RunTable.id.in_(run_ids) & (RunTable.located_by == "discovery")
    has_state = sa.exists().where(saved, CheckpointTable.role == Role.STATE)
    places = sa.select(RunTable.id, RunTable.user_settings).where(found, ~has_state)
    settings = {row_id: parse_user_settings(told or {}) for row_id, told in connection.execute(places)}
    asked = [row_id for row_id, told in settings.items() if not is_meant_to_save(told)]
    columns = sa.select(CheckpointTable.run_id, CheckpointTable.path, RunTable.directory)
    paths = columns.join(RunTable, CheckpointTable.run_id == RunTable.id).where(CheckpointTable.run_id.in_(asked))
    named: dict[int, bool] = {}
    for row_id, path, directory in connection.execute(paths) if asked else ():
        whole_path = PurePosixPath(complete_path(path, directory))
        named[row_id] = named.get(row_id, False) or is_named_as_checkpoint(whole_path)
    return {row_id for row_id, is_named in named.items() if not is_named}


def _read_starts(
    connection: sa.Connection, run_ids: set[int], parts: Mapping[int, Collection[int]]
) -> dict[int, list[datetime]]:
    """Return when the attempts of each run and of its other parts started, oldest first."""
    starts: dict[int, list[datetime]] = defaultdict(list)
    columns = sa.select(AttemptTable.run_id, AttemptTable.started_at)
    for run_id, started_at in connection.execute(columns.where(AttemptTable.run_id.in_(add_parts(run_ids, parts)))):
        starts[run_id].append(started_at)
    return {run_id: sorted(found) for run_id, found in join_lists(starts, run_ids, parts).items()}


def write_redone(connection: sa.Connection, run_ids: Collection[int]) -> None:
    """Update how much saved work of these runs' ended attempts is computed again."""
    for chunk in split(run_ids):
        parts = find_parts(select_through(connection), chunk)
        found = list(dict.fromkeys([*connection.scalars(_FOLLOWED, {"row_ids": chunk}), *parts]))
        readers = find_reading_jobs(connection, found)
        for run_id in found:
            _write_redone_of(connection, run_id, parts.get(run_id, ()), readers.get(run_id, frozenset()))


_FOLLOWED = (
    sa.select(AttemptTable.run_id)
    .where(AttemptTable.run_id.in_(ROW_IDS))
    .group_by(AttemptTable.run_id)
    .having(sa.func.count() > 1)
)


def _write_redone_of(
    connection: sa.Connection, run_id: int, others: Collection[int], readers: frozenset[JobKey]
) -> None:
    """Measure with the attempts of the other parts, too; their rows are their daemons' to change."""
    rows = connection.execute(_ATTEMPTS_AND_LOSSES, {"row_ids": [run_id, *others]})
    attempts: list[Attempt] = []
    saved: dict[tuple[JobKey, int], datetime | None] = {}
    unseen: dict[tuple[JobKey, int], timedelta] = {}
    before: dict[tuple[JobKey, int], tuple[int, tuple[Any, ...]]] = {}
    for attempt_id, is_recorded, saved_at, lost, lost_high, low, high, certainty, of_run, *rest in rows:
        attempt = attempt_from_row(JobKey(*rest[:3]), rest[3:])
        attempts.append(attempt)
        if is_recorded:
            name = (attempt.job, attempt.restart_count)
            saved[name] = saved_at
            if of_run == run_id:
                before[name] = (attempt_id, (low, high, certainty))
            unseen[name] = lost_work.NOTHING if lost_high is None else lost_high - lost
    values = []
    writing = [each for each in attempts if each.job not in readers]
    redone = dict.fromkeys(saved, NONE) | measure_redone(writing, saved, unseen)  # what others saved is not redone
    for name, found in redone.items():
        if name not in before:
            continue
        attempt_id, recorded = before[name]
        if recorded != (found.low, found.high, found.certainty):
            values.append({"key_attempt_id": attempt_id, **_redone_values(found)})
    if values:
        table = table_of(LossTable)
        summed_days.forget_days(connection, [each["key_attempt_id"] for each in values])
        connection.execute(sa.update(table).where(table.c.attempt_id == sa.bindparam("key_attempt_id")), values)


def _redone_values(redone: RedoneWork) -> dict[str, Any]:
    return {"redone_low": redone.low, "redone_high": redone.high, "redone_certainty": redone.certainty}


def _select_open() -> sa.Select[Any]:
    """Return the query for ended attempts of `run_ids` without a final row, or whose end was corrected since."""
    run_ids: sa.BindParameter[Any] = sa.bindparam("run_ids", expanding=True)
    is_whole = RunTable.unknown_what.is_(None) & RunTable.problems.is_(None)
    read_at = sa.case((RunTable.problems.is_(None), RunTable.scanned_at), else_=sa.null())  # failed ones leave it
    is_looked = RunTable.directory.like("/%") & is_whole & (RunTable.scanned_at >= AttemptTable.ended_at)
    attempts, lines = table_of(AttemptTable).alias(), table_of(LossTable).alias()
    order = sa.func.row_number().over(partition_by=attempts.c.run_id, order_by=lines.c.ended_at.desc())
    unsettled = (
        sa.select(attempts.c.id, order.label("place"))
        .join(lines, lines.c.attempt_id == attempts.c.id)
        .where(attempts.c.run_id.in_(run_ids), ~lines.c.is_final)
        .subquery()
    )
    latest = sa.select(unsettled.c.id).where(unsettled.c.place <= sa.bindparam("unsettled_count"))
    is_better_known = (
        LossTable.attempt_id.is_(None)
        | AttemptTable.id.in_(latest)
        | (LossTable.ended_at != AttemptTable.ended_at)
        | (LossTable.cause != AttemptTable.cause)
    )
    newest = (
        sa.select(attempts.c.run_id, sa.func.max(attempts.c.started_at).label("started_at"))
        .where(attempts.c.run_id.in_(run_ids))
        .group_by(attempts.c.run_id)
        .subquery()
    )
    is_followed = newest.c.started_at > AttemptTable.started_at
    is_recorded, is_located = LossTable.attempt_id.is_not(None), RunTable.directory.like("/%")
    lead = [AttemptTable.id, AttemptTable.run_id, is_recorded, is_located, is_looked, is_followed]
    live = [read_at, LossTable.read_at, JobTable.user, JobTable.account, JobTable.partition]
    columns: list[Any] = [*lead, *live, *_KEY_COLUMNS, *ATTEMPT_COLUMNS]
    return (
        sa.select(*columns)
        .join(JobTable, AttemptTable.job_row == JobTable.id)
        .join(RunTable, AttemptTable.run_id == RunTable.id)
        .join(newest, AttemptTable.run_id == newest.c.run_id)
        .outerjoin(LossTable, LossTable.attempt_id == AttemptTable.id)
        .where(AttemptTable.run_id.in_(run_ids), AttemptTable.ended_at.is_not(None), is_better_known)
    )


_OPEN = _select_open()
_ATTEMPTS_AND_LOSSES = (
    sa.select(
        AttemptTable.id,
        LossTable.attempt_id.is_not(None),
        LossTable.saved_at,
        LossTable.lost,
        LossTable.lost_high,
        LossTable.redone_low,
        LossTable.redone_high,
        LossTable.redone_certainty,
        AttemptTable.run_id,
        *_KEY_COLUMNS,
        *ATTEMPT_COLUMNS,
    )
    .join(JobTable, AttemptTable.job_row == JobTable.id)
    .outerjoin(LossTable, LossTable.attempt_id == AttemptTable.id)
    .where(AttemptTable.run_id.in_(ROW_IDS))
    .order_by(AttemptTable.started_at.desc(), AttemptTable.id.desc())
    .limit(REDONE_COUNT)
)


def _line_values(attempt: Attempt, loss: AttemptLoss) -> dict[str, Any]:
    assert attempt.ended_at is not None
    return {
        "cluster": attempt.job.cluster,
        "day": attempt.ended_at.astimezone(UTC).date(),
        "cause": attempt.cause,
        "ended_at": attempt.ended_at,
        "saved_at": loss.saved_at,
        "lost": loss.lost,
        "lost_high": loss.most,
        "node_seconds": loss.node_seconds,
        "cpu_seconds": loss.cpu_seconds,
        "gpu_seconds": loss.gpu_seconds,
    }


class LostWorkStore(StorePart, LossReader):
    """Lost work of ended attempts."""

    @reading
    def list_unscanned_runs(
        self, connection: sa.Connection, cluster: str, since: datetime, *, partly_since: datetime
    ) -> tuple[RunKey, ...]:
        """Return the runs with an attempt that ended at `since` or later and no scan after that end.

        Where it ended at `partly_since` or later, a scan does not count that did not read everything, or that found a
        save which might still be going on.
        """
        is_behind = RunTable.scanned_at.is_(None) | (RunTable.scanned_at < LossTable.ended_at)
        is_behind |= RunTable.problems.is_not(None) & (LossTable.ended_at >= partly_since)
        is_writing = sa.exists().where(
            CheckpointTable.run_id == RunTable.id,
            CheckpointTable.deleted_at.is_(None),
            CheckpointTable.state == CheckpointState.WRITING,
        )
        is_wanted = (~LossTable.is_final & is_behind) | ((LossTable.ended_at >= partly_since) & is_writing)
        rows = connection.execute(
            sa.select(*RUN_KEY_COLUMNS)
            .join(AttemptTable, AttemptTable.run_id == RunTable.id)
            .join(LossTable, LossTable.attempt_id == AttemptTable.id)
            .where(LossTable.cluster == cluster, LossTable.day >= since.astimezone(UTC).date())
            .where(LossTable.ended_at >= since, is_wanted)
            .where(RunTable.directory.like("/%"))
            .distinct()
        )
        return tuple(map(run_key, rows))
