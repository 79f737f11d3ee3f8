"""A year of records in a PostgreSQL database, made by statements that run on the server.

Two clusters share the database. Each run has three jobs one after the other, each job one or two attempts; the newest
jobs of cluster `alpha` run. Everything older than `KEPT` days is due to expire, except runs with checkpoints on disk.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg

from ckptd.core.model import CheckpointState, FileIdentity, Role, RunKey
from ckptd.store.packed_members import pack_members
from ckptd.store.row_values import hash_path
from ckptd.store.stored_checkpoints import key_of_path
from ckptd.store.word_codes import ROLE_CODES, STATE_CODES

NOW = datetime.fromisoformat("2026-11-20T12:00:00+00:00")
RECORDED, KEPT = timedelta(days=380), timedelta(days=365)
USER_COUNT = 500
DIRECTORY = "/scratch/project/run-{}"
SAVE_COUNT = 100  # checkpoints of a run that is active
ASKED_COUNT = 1000  # newest runs whose directories have the hashes by which the store finds them


@dataclass(frozen=True)
class RecordedYear:
    """How many rows there are. Jobs and runs are numbered from 1, oldest first."""

    job_count: int
    active_count: int  # jobs of cluster alpha that run

    @property
    def run_count(self) -> int:
        return self.job_count // 3

    def list_newest(self, count: int) -> list[RunKey]:
        """Return the newest runs, which run."""
        return [make_run(number) for number in range(self.run_count - count + 1, self.run_count + 1)]


def make_run(number: int) -> RunKey:
    return RunKey("alpha", number % USER_COUNT, DIRECTORY.format(number))


_AT = "({now} - {recorded} * (1 - i / {jobs}.0))"  # when job i was submitted
_OF_RUN = "((i - 1) / 3 + 1)"
_USER = f"({_OF_RUN} % {USER_COUNT})"
_CLUSTER = "CASE WHEN {active_from} >= i AND i / 3000 % 5 = 0 THEN 'beta' ELSE 'alpha' END"
_IS_ACTIVE = "(i > {active_from})"
_STATEMENTS = (
    """
    INSERT INTO clusters (name, polled_at, polled_since, mentions_at)
    SELECT name, {now}, {now}, {now} FROM (VALUES ('alpha'), ('beta')) names (name)
    """,
    f"""
    INSERT INTO runs (id, cluster, uid, directory, directory_hash, "user", located_by, recorded_since, revision,
        scanned_at, free_bytes)
    SELECT {_OF_RUN}, {_CLUSTER}, {_USER}, '/scratch/project/run-' || {_OF_RUN}, md5({_OF_RUN}::text),
        'u' || {_USER}, 'declared', {_AT}, 7, {_AT} + interval '3 hours', 1000
    FROM (SELECT r * 3 AS i FROM generate_series(1, {{runs}}) r) runs
    """,
    f"""
    INSERT INTO jobs (id, run_id, first_seen_at, ended_at, in_queue, cluster, job_id, array_job_id, array_task_id,
        "user", uid, account, "partition", qos, name, state, reason, restart_count, is_requeueable,
        time_limit_seconds, time_left_seconds, submitted_at, started_at, ends_at, work_dir, comment, admin_comment,
        dependency, node_list, batch_host, node_count, cpu_count, gpu_count, is_batch)
    SELECT i, {_OF_RUN}, {_AT}, CASE WHEN {_IS_ACTIVE} THEN NULL ELSE {_AT} + interval '1 hour' END, {_IS_ACTIVE},
        CASE WHEN {{active_from}} >= {_OF_RUN} * 3 AND {_OF_RUN} * 3 / 3000 % 5 = 0 THEN 'beta' ELSE 'alpha' END,
        i, CASE WHEN i % 4 = 0 THEN i / 100 * 100 END, CASE WHEN i % 4 = 0 THEN i % 100 END,
        'u' || {_USER}, {_USER}, 'account' || {_USER} % 50, 'partition' || i % 8, 'normal', 'train',
        CASE WHEN {_IS_ACTIVE} THEN 'RUNNING' ELSE 'COMPLETED' END, '', 0, true, 7200,
        CASE WHEN {_IS_ACTIVE} THEN 3600 END, {_AT}, {_AT},
        {_AT} + interval '2 hours', '/home/u' || {_USER}, '', '', '', 'node' || i % 1000, '', 1, 16, 4, true
    FROM generate_series(1, {{jobs}}) i
    """,
    f"""
    INSERT INTO attempts (id, job_row, run_id, restart_count, array_job_id, array_task_id, state, cause, first_seen_at,
        started_at, ended_at, "partition", node_count, cpu_count, gpu_count, is_resume_final)
    SELECT {{jobs}} * n.restart + i, i, {_OF_RUN}, n.restart, NULL, NULL,
        CASE WHEN {_IS_ACTIVE} THEN 'RUNNING' WHEN n.restart = 0 THEN 'COMPLETED' ELSE 'TIMEOUT' END,
        CASE WHEN {_IS_ACTIVE} THEN NULL WHEN i % 50 = 0 THEN 'time-limit' WHEN i % 7 = 0 THEN 'failure'
            ELSE 'completed' END,
        {_AT}, {_AT} + n.restart * interval '30 minutes',
        CASE WHEN {_IS_ACTIVE} THEN NULL ELSE {_AT} + interval '30 minutes' * (n.restart + 1) END,
        'partition' || i % 8, 1, 16, 4, true
    FROM generate_series(1, {{jobs}}) i, generate_series(0, 1) n (restart)
    WHERE n.restart = 0 OR i % 20 = 0 AND NOT {_IS_ACTIVE}
    """,
    """
    INSERT INTO losses (attempt_id, cluster, day, "user", account, "partition", cause, ended_at, lost_seconds,
        node_seconds, cpu_seconds, gpu_seconds, is_final)
    SELECT a.id, j.cluster, (a.ended_at AT TIME ZONE 'UTC')::date, j."user", j.account, a."partition", a.cause,
        a.ended_at, 60, 60, 960, 240, a.id % 1000 <> 0
    FROM attempts a JOIN jobs j ON j.id = a.job_row WHERE a.ended_at IS NOT NULL
    """,
    f"""
    INSERT INTO checkpoints (run_id, attempt_id, first_seen_at, started_writing_at, completed_at, deleted_at, pruned_at,
        is_pinned, path, path_key, format, members, size_bytes, modified_at, state, step, role)
    SELECT {_OF_RUN}, i, at + s * interval '1 minute', at, at + s * interval '1 minute',
        CASE WHEN is_there THEN NULL ELSE at + interval '2 days' END, NULL,
        false, 'step-' || s || '.pt', ({{keys}})[s], 'torch', {{members}}, 1000, at + s * interval '1 minute',
        {STATE_CODES[CheckpointState.COMPLETE]}, s, {ROLE_CODES[Role.STATE]}
    FROM (
        SELECT i, {_AT} AS at, s, {_IS_ACTIVE} OR {_OF_RUN} % 20 = 0 AS is_there
        FROM generate_series(3, {{jobs}}, 3) i,
            LATERAL generate_series(1, CASE WHEN {_IS_ACTIVE} THEN {SAVE_COUNT} ELSE 3 END) s
    ) saved
    """,
    f"""
    INSERT INTO flags (run_id, rule, severity, job_id, "user", evidence, advice, audience, opened_at, resolved_at)
    SELECT {_OF_RUN}, CASE WHEN i % 3 = 0 THEN 'at-risk' ELSE 'no-checkpoint' END, 'warning', i, 'u' || {_USER},
        '{{{{}}}}', '', '["user"]', {_AT} + interval '10 minutes',
        CASE WHEN {_IS_ACTIVE} THEN NULL ELSE {_AT} + interval '50 minutes' END
    FROM generate_series(9, {{jobs}}, 9) i
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
    SELECT {_CLUSTER}, {_OF_RUN}, action || '/' || i, 'ckptd', action, '/scratch/x', '[]',
        '{{{{"act_id": "' || i || '", "size_bytes": 1000}}}}', {_AT} + interval '1 hour',
        {_AT} + interval '1 hour', outcome
    FROM generate_series(9, {{jobs}}, 9) i,
        (VALUES ('prune', 'moved'), ('empty', 'deleted'), ('signal', 'done')) actions (action, outcome)
    """,
    f"""
    INSERT INTO mentions (cluster, job_id, uid, "user", revision, is_waiting, is_script_awaited, mentions, resolved,
        links)
    SELECT 'alpha', i, {_USER}, 'u' || {_USER}, md5(i::text), {{jobs}} < i, false, '[]', '[]', '[]'
    FROM generate_series({{active_from}} + 1, {{jobs}} + 5 * {{active}}) i
    """,
)


def record_year(address: str, job_count: int, active_count: int) -> RecordedYear:
    """Fill an empty database with its tables; numbers are made multiples of three."""
    year = RecordedYear(job_count // 3 * 3, active_count // 3 * 3)
    values = {
        "now": f"timestamptz '{NOW.isoformat()}'",
        "recorded": f"interval '{RECORDED.days} days'",
        "jobs": year.job_count,
        "runs": year.run_count,
        "active": year.active_count,
        "keys": f"ARRAY{[key_of_path(f'step-{number}.pt') for number in range(1, SAVE_COUNT + 1)]}",
        "members": f"'\\x{pack_members('', [''], [FileIdentity(65024, 6195174, 1000, 1)], NOW, 1000).hex()}'::bytea",
        "active_from": year.job_count - year.active_count,
    }
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute("SET session_replication_role = replica")  # no check of each foreign key
        for statement in _STATEMENTS:
            connection.execute(statement.format(**values).replace("{{", "{").replace("}}", "}").encode())
        asked = [
            (hash_path(key.directory), key.directory) for key in year.list_newest(min(ASKED_COUNT, year.run_count))
        ]
        with connection.cursor() as cursor:
            first = year.run_count - len(asked) + 1
            cursor.executemany(
                "UPDATE runs SET directory_hash = %s WHERE id = %s",
                [(digest, first + place) for place, (digest, _) in enumerate(asked)],
            )
        for table in ("runs", "jobs", "attempts"):
            connection.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}".encode())
        connection.execute("VACUUM ANALYZE")
    return year
