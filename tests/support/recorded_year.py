"""A year of records in a PostgreSQL database, made by statements that run on the server.

Two clusters share the database. Ten jobs share a run, with jobs of other runs between them; each job has one or two
attempts. The newest jobs of cluster `alpha` run, each in a run of its own that had two jobs before. Everything older
than `KEPT` is due to expire, except runs with checkpoints on disk.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg

from ckptd.core.model import CheckpointState, FileIdentity, Role, RunKey
from ckptd.core.rows.packed_members import pack_members
from ckptd.core.rows.stored_checkpoints import key_of_path
from ckptd.core.rows.word_codes import ROLE_CODES, STATE_CODES
from ckptd.store.row_values import hash_path
from support.bulk_load import without_indexes

NOW = datetime.fromisoformat("2026-11-20T12:00:00+00:00")
RECORDED, KEPT = timedelta(days=380), timedelta(days=365)
USER_COUNT = 500
DIRECTORY = "/scratch/project/run-{}"
SAVE_COUNT = 100  # checkpoints of a run that is active
ENDED_SAVE_COUNT = 3  # of three jobs of every second run that has ended
BLOCK, RUN_JOBS = 1000, 10  # of so many jobs one after the other, each run has so many
ASKED_COUNT = 1000  # newest runs whose directories have the hashes by which the store finds them


@dataclass(frozen=True)
class RecordedYear:
    """How many rows there are. Jobs and runs are numbered from 1, oldest first."""

    job_count: int
    active_count: int  # jobs of cluster alpha that run

    @property
    def run_count(self) -> int:
        return self.ended_run_count + self.active_count

    @property
    def ended_run_count(self) -> int:
        return (self.job_count - 3 * self.active_count) // RUN_JOBS

    def list_newest(self, count: int) -> list[RunKey]:
        """Return the newest runs, which run."""
        return [make_run(number) for number in range(self.run_count - count + 1, self.run_count + 1)]


def make_run(number: int) -> RunKey:
    return RunKey("alpha", number % USER_COUNT, DIRECTORY.format(number))


_AT = "({now} - {recorded} * (1 - i / {jobs}::float8))"  # when job i was submitted
_RUNS = BLOCK // RUN_JOBS
_OF_RUN = (
    f"(CASE WHEN i > {{mixed}} THEN {{ended_runs}} + (i - {{mixed}} - 1) % {{active}} + 1"
    f" ELSE (i - 1) / {BLOCK} * {_RUNS} + (i - 1) % {_RUNS} + 1 END)"
)
_FIRST_JOB = (
    f"CASE WHEN r > {{ended_runs}} THEN {{mixed}} + r - {{ended_runs}}"
    f" ELSE (r - 1) / {_RUNS} * {BLOCK} + (r - 1) % {_RUNS} + 1 END"
)
_MADE = f"""
(
    SELECT i, {_AT} AS at, run, run % {USER_COUNT} AS uid, 'u' || run % {USER_COUNT} AS "user",
        CASE WHEN i <= {{mixed}} AND (i - 1) / {BLOCK} % 5 = 0 THEN 'beta' ELSE 'alpha' END AS cluster,
        i > {{active_from}} AS is_active
    FROM (SELECT i, {_OF_RUN} AS run FROM {{{{source}}}} OFFSET 0) numbered OFFSET 0
) made
"""
_CAUSE = "CASE WHEN i % 50 = 0 THEN 'time-limit' WHEN i % 7 = 0 THEN 'failure' ELSE 'completed' END"


def _made(first: int = 1, step: int = 1) -> str:
    """Return a subquery of every `step`th job; OFFSET 0 keeps PostgreSQL from computing a column at each use."""
    return _MADE.replace("{{source}}", f"generate_series({first}, {{jobs}}, {step}) i")


_STATEMENTS = (
    """
    INSERT INTO clusters (name, polled_at, polled_since, mentions_at)
    SELECT name, {now}, {now}, {now} FROM (VALUES ('alpha'), ('beta')) names (name)
    """,
    f"""
    INSERT INTO runs (id, cluster, uid, directory, directory_hash, "user", located_by, recorded_since, revision,
        scanned_at, free_bytes)
    SELECT run, cluster, uid, '/scratch/project/run-' || run, md5(run::text), "user", 'declared', at, 7,
        at + interval '3 hours', 1000
    FROM {_MADE.replace("{{source}}", f"(SELECT {_FIRST_JOB} AS i FROM generate_series(1, {{runs}}) r) first")}
    """,
    f"""
    INSERT INTO jobs (id, run_id, first_seen_at, ended_at, in_queue, cluster, job_id, array_job_id, array_task_id,
        "user", uid, account, "partition", qos, name, state, reason, restart_count, is_requeueable,
        time_limit_seconds, time_left_seconds, submitted_at, started_at, ends_at, work_dir, comment, admin_comment,
        dependency, node_list, batch_host, node_count, cpu_count, gpu_count, is_batch)
    SELECT i, run, at, CASE WHEN is_active THEN NULL ELSE at + interval '1 hour' END, is_active, cluster,
        i, CASE WHEN i % 4 = 0 THEN i / 100 * 100 END, CASE WHEN i % 4 = 0 THEN i % 100 END,
        "user", uid, 'account' || uid % 50, 'partition' || i % 8, 'normal', 'train',
        CASE WHEN is_active THEN 'RUNNING' ELSE 'COMPLETED' END, '', 0, true, 7200,
        CASE WHEN is_active THEN 3600 END, at, at, at + interval '2 hours', '/home/' || "user", '', '', '',
        'node' || i % 1000, '', 1, 16, 4, true
    FROM {_made()}
    """,
    f"""
    INSERT INTO attempts (id, job_row, run_id, restart_count, array_job_id, array_task_id, state, cause, first_seen_at,
        started_at, ended_at, "partition", node_count, cpu_count, gpu_count, is_resume_final)
    SELECT {{jobs}} * n.restart + i, i, run, n.restart, NULL, NULL,
        CASE WHEN is_active THEN 'RUNNING' WHEN n.restart = 0 THEN 'COMPLETED' ELSE 'TIMEOUT' END,
        CASE WHEN NOT is_active THEN {_CAUSE} END, at, at + n.restart * interval '30 minutes',
        CASE WHEN NOT is_active THEN at + interval '30 minutes' * (n.restart + 1) END,
        'partition' || i % 8, 1, 16, 4, true
    FROM {_made()}, generate_series(0, 1) n (restart)
    WHERE n.restart = 0 OR i % 20 = 0 AND NOT is_active
    """,
    f"""
    INSERT INTO losses (attempt_id, cluster, day, "user", account, "partition", cause, ended_at, lost_seconds,
        node_seconds, cpu_seconds, gpu_seconds, is_final)
    SELECT {{jobs}} * n.restart + i, cluster, (at + interval '30 minutes' * (n.restart + 1))::date, "user",
        'account' || uid % 50, 'partition' || i % 8, {_CAUSE}, at + interval '30 minutes' * (n.restart + 1), 60,
        60, 960, 240, i % 1000 <> 0
    FROM {_made()}, generate_series(0, 1) n (restart)
    WHERE NOT is_active AND (n.restart = 0 OR i % 20 = 0)
    """,
    f"""
    INSERT INTO checkpoints (run_id, attempt_id, first_seen_at, started_writing_at, completed_at, deleted_at, pruned_at,
        is_pinned, path, path_key, format, members, size_bytes, modified_at, state, step, role)
    SELECT run, i, at + s * interval '1 minute', at, at + s * interval '1 minute',
        CASE WHEN NOT is_active AND run % 20 <> 0 THEN at + interval '2 days' END, NULL,
        false, 'step-' || s || '.pt', ({{keys}})[s], 'torch', {{members}}, 1000, at + s * interval '1 minute',
        {STATE_CODES[CheckpointState.COMPLETE]}, s, {ROLE_CODES[Role.STATE]}
    FROM {_made()},
        LATERAL generate_series(1, CASE WHEN is_active THEN {SAVE_COUNT} ELSE {ENDED_SAVE_COUNT} END) s
    WHERE is_active OR run % 2 = 0 AND i % {BLOCK} < {3 * _RUNS} AND i <= {{mixed}}
    """,
    f"""
    INSERT INTO flags (run_id, rule, severity, job_id, "user", evidence, advice, audience, opened_at, resolved_at)
    SELECT run, CASE WHEN i % 3 = 0 THEN 'at-risk' ELSE 'no-checkpoint' END, 'warning', i, "user",
        '{{{{}}}}', '', '["user"]', at + interval '10 minutes',
        CASE WHEN NOT is_active THEN at + interval '50 minutes' END
    FROM {_made(9, 9)}
    """,
    """
    INSERT INTO notices (cluster, run_id, recipient, recipient_hash, channel, edge, kind, severity, topic, state,
        payload, created_at, due_at, next_try_at, sent_at, try_count)
    SELECT r.cluster, f.run_id, f."user", md5(f."user"), 'mail', 'opened/' || f.id, 'opened', f.severity,
        md5(f.run_id || f.rule), CASE WHEN f.resolved_at IS NULL AND f.id % 10 = 0 THEN 'waiting' ELSE 'sent' END,
        '{{"rule": "' || f.rule || '", "thread": "", "user": "' || f."user" || '", "meant_for": null, '
        || '"work_dir": null, "job_name": "train", "array_job_id": null, "job_count": 1, "job_ids": [], '
        || '"evidence": {{}}, "advice": "", "is_silent": false, "uid": 1, "directory": "/"}}',
        f.opened_at, f.opened_at, f.opened_at,
        CASE WHEN f.resolved_at IS NULL AND f.id % 10 = 0 THEN NULL ELSE f.opened_at END, 0
    FROM flags f JOIN runs r ON r.id = f.run_id
    """,
    f"""
    INSERT INTO audit (cluster, run_id, plan_id, actor, action, target, reasons, details, begun_at, finished_at,
        outcome)
    SELECT cluster, run, action || '/' || i, 'ckptd', action, '/scratch/x', '[]',
        '{{{{"act_id": "' || i || '", "size_bytes": 1000}}}}', at + interval '1 hour', at + interval '1 hour', outcome
    FROM {_made(31, 31)},
        (VALUES ('prune', 'moved'), ('empty', 'deleted'), ('signal', 'done')) actions (action, outcome)
    """,
    f"""
    INSERT INTO mentions (cluster, job_id, uid, "user", revision, is_waiting, is_script_awaited, mentions, resolved,
        links)
    SELECT 'alpha', i, uid, "user", md5(i::text), {{jobs}} < i, false, '[]', '[]', '[]'
    FROM {_MADE.replace("{{source}}", "generate_series({active_from} + 1, {jobs} + 5 * {active}) i")}
    """,
)


def plan_year(job_count: int, active_count: int) -> RecordedYear:
    """Return the next lower numbers that make whole blocks."""
    return RecordedYear((job_count - 3 * active_count) // BLOCK * BLOCK + 3 * active_count, active_count)


def read_year(address: str) -> RecordedYear | None:
    """Return which year `record_year` has recorded in a database; None if that has no job."""
    with psycopg.connect(address) as connection:
        row = connection.execute("SELECT max(id), count(*) FILTER (WHERE ended_at IS NULL) FROM jobs").fetchone()
    return None if row is None or row[0] is None else RecordedYear(*row)


def record_year(address: str, job_count: int, active_count: int) -> RecordedYear:
    """Fill an empty database that has its tables, in one transaction."""
    year = plan_year(job_count, active_count)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute("SET session_replication_role = replica")  # no check of each foreign key
        with connection.transaction(), without_indexes(connection):
            for statement in _STATEMENTS:
                connection.execute(statement.format(**_values(year)).replace("{{", "{").replace("}}", "}").encode())
        _hash_newest_directories(connection, year)
        for table in ("runs", "jobs", "attempts"):
            connection.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}".encode())
        connection.execute("VACUUM ANALYZE")
    return year


def _values(year: RecordedYear) -> dict[str, object]:
    members = pack_members("", [""], [FileIdentity(65024, 6195174, 1000, 1)], NOW, 1000)
    return {
        "now": f"timestamptz '{NOW.isoformat()}'",
        "recorded": f"interval '{RECORDED.total_seconds()} seconds'",
        "jobs": year.job_count,
        "runs": year.run_count,
        "ended_runs": year.ended_run_count,
        "active": year.active_count,
        "active_from": year.job_count - year.active_count,
        "mixed": year.job_count - 3 * year.active_count,  # up to this one, jobs are in blocks
        "keys": f"ARRAY{[key_of_path(f'step-{number}.pt') for number in range(1, SAVE_COUNT + 1)]}",
        "members": f"'\\x{members.hex()}'::bytea",
    }


def _hash_newest_directories(connection: psycopg.Connection, year: RecordedYear) -> None:
    asked = year.list_newest(min(ASKED_COUNT, year.run_count))
    first = year.run_count - len(asked) + 1
    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE runs SET directory_hash = %s WHERE id = %s",
            [(hash_path(key.directory), first + place) for place, key in enumerate(asked)],
        )
