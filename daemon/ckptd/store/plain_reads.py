"""Read jobs, flags and the daemon's status with plain SQL that works on SQLite and PostgreSQL.

Commands run these statements through a database driver (`light_reader`), because importing SQLAlchemy takes longer
than reading the data. The daemon and the web pages run the same statements on SQLAlchemy's connections. Nothing is
written here.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ckptd.core.leadership.lease import RUN
from ckptd.core.model import RUNNING_STATES, Finding, Flag, JobKey, JobState, RunKey, Severity, Unknown
from ckptd.core.model.records import ClusterStatus, DaemonIdentity, JobRow, NodeScanCost
from ckptd.core.rows.stored_instants import instant
from ckptd.core.rows.text_escapes import decode_text, encode_text
from ckptd.core.rows.word_codes import COMPLETE

_VALUE = re.compile(r":(\w+)")


class Select(NamedTuple):
    """Runs one statement with values named `:name`; aware datetimes work with both databases."""

    run: Callable[[str, Mapping[str, object]], Iterable[Sequence[Any]]]
    is_sqlite: bool

    def __call__(self, statement: str, values: Mapping[str, object], /) -> Iterable[Sequence[Any]]:
        return self.run(statement, values)


def name_values(statement: str) -> str:
    """Return a statement with the names of its values as psycopg writes them."""
    return _VALUE.sub(r"%(\1)s", statement)


ReadSaved = Callable[[Select, str, Mapping[str, object]], Mapping[int, Sequence[Any]]]


class Leadership(NamedTuple):
    """Who acts for a cluster, and who waits to."""

    leader: str | None  # None: nobody has the lease
    since: datetime | None
    standbys: tuple[str, ...]


class MailState(NamedTuple):
    """A cluster's messages: how many wait, since when the oldest is due, and when the last one was sent."""

    waiting_count: int
    oldest_due_at: datetime | None
    last_sent_at: datetime | None


_JOBS = """
SELECT j.cluster, j.job_id, j.first_seen_at, j.array_job_id, j.array_task_id, j."user", j.name, j."partition", j.state,
    j.restart_count, j.time_left_seconds, j.ends_at, r.id, r.uid, r.directory, r.located_by
FROM jobs j JOIN runs r ON r.id = j.run_id
WHERE {chosen}
ORDER BY j.cluster, j.job_id
"""
# each run's newest complete checkpoint is looked up by itself: numbering all checkpoints costs several times as much.
# GROMACS makes `state_prev.cpt` right after `state.cpt`, of the state before: see core.runs.rotated_copies
_SAVED = f"""
SELECT saved.run_id, saved.checkpoint_count, saved.size_bytes, newest.completed_at, newest.epoch, newest.step
FROM (
    SELECT c.run_id AS run_id, count(*) AS checkpoint_count, sum(c.size_bytes) AS size_bytes,
        (
            SELECT n.id FROM checkpoints n
            WHERE n.run_id = c.run_id AND n.deleted_at IS NULL AND n.state = {COMPLETE} AND n.completed_at IS NOT NULL
                AND NOT (replace(n.path, '_prev.', '.') <> n.path AND EXISTS (
                    SELECT 1 FROM checkpoints original
                    WHERE original.run_id = n.run_id AND original.deleted_at IS NULL AND original.state = {COMPLETE}
                        AND original.path = replace(n.path, '_prev.', '.')
                ))
            ORDER BY n.completed_at DESC, n.step DESC NULLS LAST, n.id DESC LIMIT 1
        ) AS newest_id
    FROM checkpoints c
    WHERE c.deleted_at IS NULL AND c.run_id IN ({{runs}})
    GROUP BY c.run_id
) saved LEFT JOIN checkpoints newest ON newest.id = saved.newest_id
"""  # noqa: S608 - the codes are this package's own
_RUNS = "SELECT j.run_id FROM jobs j WHERE {chosen}"
_LOCATIONS = """
SELECT l.run_id, l.directory FROM locations l
WHERE l.run_id IN (SELECT j.run_id FROM jobs j WHERE {chosen}) ORDER BY l.run_id, l.ordinal
"""
_FLAGGED = """
EXISTS (
    SELECT 1 FROM flags f
    WHERE f.run_id = j.run_id AND f.resolved_at IS NULL AND (f.job_id IS NULL OR f.job_id = j.job_id)
)
"""


def read_saved(select: Select, runs: str, values: Mapping[str, object]) -> dict[int, Sequence[Any]]:
    """Return what the runs of a subquery have saved, by row id; those that have nothing are left out."""
    return {row[0]: row for row in select(_SAVED.format(runs=runs), values)}


def list_jobs(
    select: Select,
    now: datetime,
    *,
    cluster: str | None = None,
    user: str | None = None,
    flagged_only: bool = False,
    read_saved: ReadSaved = read_saved,
) -> tuple[JobRow, ...]:
    """Return the jobs that have started and not ended, by cluster and job id, with the time left at `now`."""
    values: dict[str, object] = {}
    conditions = ["j.ended_at IS NULL"]
    if cluster is not None:
        conditions.append("j.cluster = :cluster")
        values["cluster"] = encode_text(cluster)
    if user is not None:
        conditions.append('j."user" = :user')
        values["user"] = encode_text(user)
    if flagged_only:
        conditions.append(_FLAGGED)
    chosen = " AND ".join(conditions)
    saved = read_saved(select, _RUNS.format(chosen=chosen), values)
    rules = _read_rules(select)
    copies: dict[int, list[str]] = defaultdict(list)
    for run_id, directory in select(_LOCATIONS.format(chosen=chosen), values):
        copies[run_id].append(decode_text(directory))
    return tuple(
        _job(row, saved.get(row[12]), rules, copies[row[12]], now)
        for row in select(_JOBS.format(chosen=chosen), values)
    )


def _read_rules(select: Select) -> dict[int, list[tuple[str, int | None]]]:
    result: dict[int, list[tuple[str, int | None]]] = defaultdict(list)
    for run_id, rule, job_id in select("SELECT run_id, rule, job_id FROM flags WHERE resolved_at IS NULL", {}):
        result[run_id].append((decode_text(rule), job_id))
    return result


def _job(
    row: Sequence[Any],
    saved: Sequence[Any] | None,
    rules: Mapping[int, list[tuple[str, int | None]]],
    copies: Iterable[str],
    now: datetime,
) -> JobRow:
    cluster, job_id, first_seen_at, array_job_id, array_task_id, user, name, partition = row[:8]
    state, restart_count, seconds_left, ends_at, run_id, uid, directory, located_by = row[8:]
    cluster, job_state = decode_text(cluster), JobState(state)
    run = RunKey(cluster, uid, decode_text(directory))
    _, checkpoint_count, size_bytes, completed_at, epoch, step = saved or (run_id, 0, 0, None, None, None)
    first_seen = instant(first_seen_at)
    assert first_seen is not None
    return JobRow(
        key=JobKey(cluster, job_id, first_seen),
        run=run,
        array_job_id=array_job_id,
        array_task_id=array_task_id,
        user=decode_text(user),
        name=decode_text(name),
        partition=decode_text(partition),
        state=job_state,
        restart_count=restart_count,
        time_left=_time_left(seconds_left, job_state, instant(ends_at), now),
        directory=run.directory if run.is_located else None,
        located_by=None if located_by is None else decode_text(located_by),
        epoch=int(epoch) if epoch is not None and float(epoch).is_integer() else epoch,
        step=step,
        newest_checkpoint_at=instant(completed_at),
        checkpoint_count=checkpoint_count,
        checkpoint_bytes=int(size_bytes),
        copies=tuple(copies),
        flags=tuple(sorted({rule for rule, of_job in rules.get(run_id, ()) if of_job in {None, job_id}})),
    )


def _time_left(seconds: float | None, state: JobState, ends_at: datetime | None, now: datetime) -> timedelta | None:
    """Return the time left at `now`; it decreases for running jobs only."""
    if seconds is None:
        return None
    is_moving = ends_at is not None and state in RUNNING_STATES
    return max(ends_at - now, timedelta(0)) if is_moving and ends_at else timedelta(seconds=seconds)


DecodedFlags = dict[int, tuple[int, Flag]]  # by row id: a hash of the row, and what it says


def read_flags(
    select: Select, *, cluster: str | None = None, include_resolved: bool = False, run_id: int | None = None
) -> tuple[Flag, ...]:
    """Return flags, oldest first; None for a cluster or run means all."""
    rows = _read_flag_rows(select, cluster=cluster, include_resolved=include_resolved, run_id=run_id)
    return tuple(_flag(row) for row in rows)


def read_open_flags(select: Select, cluster: str | None, known: Mapping[int, tuple[int, Flag]]) -> DecodedFlags:
    """Return the open flags, oldest first, and decode only rows that are not known; None for a cluster means all."""
    found: dict[int, tuple[int, Flag]] = {}
    for row in _read_flag_rows(select, cluster=cluster):
        value = hash(tuple(row))  # of 64 bits: the row itself takes more memory than the flag
        before = known.get(row[0])
        found[row[0]] = before if before and before[0] == value else (value, _flag(row))
    return found


def _read_flag_rows(
    select: Select, *, cluster: str | None = None, include_resolved: bool = False, run_id: int | None = None
) -> Iterable[Sequence[Any]]:
    values: dict[str, object] = {}
    conditions = [] if include_resolved else ["f.resolved_at IS NULL"]
    if cluster is not None:
        conditions.append("r.cluster = :cluster")
        values["cluster"] = encode_text(cluster)
    if run_id is not None:
        conditions.append("f.run_id = :run_id")
        values["run_id"] = run_id
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    statement = f"""
        SELECT f.id, f.rule, f.severity, r.cluster, r.uid, r.directory, f.job_id, f."user", f.evidence, f.advice,
            f.audience, f.opened_at, f.worsened_at, f.resolved_at
        FROM flags f JOIN runs r ON r.id = f.run_id {where}
        ORDER BY f.opened_at, f.id
    """  # noqa: S608 - the conditions are this function's own
    return select(statement, values)


def _flag(row: Sequence[Any]) -> Flag:
    flag_id, rule, severity, cluster, uid, directory, job_id, user, evidence, advice, audience = row[:11]
    opened_at, worsened_at, resolved_at = map(instant, row[11:])
    assert opened_at is not None
    finding = Finding(
        rule=decode_text(rule),
        severity=Severity(severity),
        run=RunKey(decode_text(cluster), uid, decode_text(directory)),
        job_id=job_id,
        user=decode_text(user),
        evidence=json.loads(evidence),
        audience=tuple(json.loads(audience)),
        recorded_advice=decode_text(advice),
    )
    return Flag(flag_id=flag_id, finding=finding, opened_at=opened_at, worsened_at=worsened_at, resolved_at=resolved_at)


def read_status(select: Select) -> tuple[ClusterStatus, ...]:
    """Return the status of every recorded cluster, by name."""
    rows = select(
        """
        SELECT name, polled_at, poll_failed_at, unknown_what, unknown_reason, scanned_at, heartbeat_at, daemon_host,
            daemon_pid, daemon_version, daemon_started_at, backfill_since, node_scan_count, node_scan_seconds,
            (SELECT count(*) FROM leases l WHERE l.cluster = c.name AND l.instance IS NOT NULL AND l.program = :program)
        FROM clusters c ORDER BY name
        """,
        {"program": encode_text(RUN)},
    )
    return tuple(_status(row) for row in rows)


def _status(row: Sequence[Any]) -> ClusterStatus:
    name, polled_at, poll_failed_at, what, reason, scanned_at, heartbeat_at, host, pid, version, *more = row
    started_at, since, step_count, step_seconds, lease_count = more
    daemon = trouble = None
    if host is not None:
        began_at = instant(started_at)
        assert began_at is not None
        daemon = DaemonIdentity(host=decode_text(host), pid=pid, version=decode_text(version), started_at=began_at)
    if what is not None:
        trouble = Unknown(what=decode_text(what), reason=decode_text(reason))
    return ClusterStatus(
        cluster=decode_text(name),
        polled_at=instant(polled_at),
        poll_failed_at=instant(poll_failed_at),
        poll_trouble=trouble,
        scanned_at=instant(scanned_at),
        heartbeat_at=instant(heartbeat_at),
        daemon=daemon,
        backfill_since=instant(since),
        node_scans=NodeScanCost(step_count or 0, step_seconds or 0),
        is_led=lease_count > 0,
    )


def read_leadership(select: Select, cluster: str, seen_since: datetime) -> Leadership:
    """Return which process acts for a cluster, and the standbys that were seen since then."""
    values = {"cluster": encode_text(cluster), "since": seen_since}
    held = "SELECT program, host, pid, acquired_at FROM leases WHERE cluster = :cluster AND instance IS NOT NULL"
    waiting = "SELECT host, pid FROM standbys WHERE cluster = :cluster AND seen_at >= :since ORDER BY host, pid"
    standbys = tuple(f"{decode_text(host)} pid {pid}" for host, pid in select(waiting, values))
    for program, host, pid, acquired_at in select(held, {"cluster": encode_text(cluster)}):
        name = "" if program == RUN else f"ckptd {decode_text(program)}, "
        leader = f"{name}{decode_text(host)} pid {pid}"
        return Leadership(leader, instant(acquired_at), standbys)
    return Leadership(None, None, standbys)


def read_mail_state(select: Select, cluster: str, now: datetime) -> MailState:
    """Return how many of a cluster's messages wait, and when the last one was sent through any channel."""
    waits = "cluster || '' = :cluster AND state IN ('waiting', 'claimed')"  # by the index of states: see without_index
    values = {"cluster": encode_text(cluster), "now": now}
    statement = f"SELECT count(*), min(CASE WHEN due_at <= :now THEN due_at END) FROM notices WHERE {waits}"  # noqa: S608
    ((waiting_count, oldest_due_at),) = select(statement, values)
    sent = "SELECT max(sent_at) FROM notices WHERE cluster = :cluster"
    ((last_sent_at,),) = select(sent, {"cluster": encode_text(cluster)})
    return MailState(waiting_count, instant(oldest_due_at), instant(last_sent_at))


def read_unfinished_reasons(select: Select, cluster: str, action: str) -> list[str]:
    """Return the first reason of each unfinished audit entry of one kind, newest first."""
    rows = select(
        """
        SELECT reasons FROM audit
        WHERE cluster = :cluster AND action = :action AND finished_at IS NULL ORDER BY id DESC
        """,
        {"cluster": encode_text(cluster), "action": action},
    )
    return [reasons[0] for reasons in (json.loads(row[0]) for row in rows) if reasons]


def count_audited_by_owner(select: Select, cluster: str, actor: str, since: datetime) -> dict[tuple[str, int], int]:
    """Return how many actions of an actor started since then, by action and uid of the run's owner (-1: no run)."""
    rows = select(
        """
        SELECT a.action, r.uid, count(*) FROM audit a LEFT JOIN runs r ON r.id = a.run_id
        WHERE a.cluster = :cluster AND a.actor = :actor AND a.begun_at >= :since
        GROUP BY a.action, r.uid
        """,
        {"cluster": encode_text(cluster), "actor": encode_text(actor), "since": since},
    )
    return {(decode_text(action), -1 if uid is None else uid): count for action, uid, count in rows}
