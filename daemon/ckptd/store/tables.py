"""The tables, typed. Rows of them never leave this folder.

Paths are indexed by a hash, because PostgreSQL refuses index entries as long as a path may be. Lists that are only
read whole (evidence, settings) are JSON text.
"""

from datetime import date, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from ckptd.core.model import Certainty, CheckpointState, EndCause, JobState, RestartKind, Role, Severity
from ckptd.store.table_base import Base, primary_key


class ClusterTable(Base):
    """One cluster: when its data was last updated, and by which daemon."""

    __tablename__ = "clusters"

    name: Mapped[str] = mapped_column(primary_key=True)
    polled_at: Mapped[datetime | None]
    polled_since: Mapped[datetime | None]  # from then to `polled_at`, the queue was polled without a long gap
    poll_failed_at: Mapped[datetime | None]
    unknown_what: Mapped[str | None]
    unknown_reason: Mapped[str | None]
    backfill_since: Mapped[
        datetime | None
    ]  # from then to `backfill_until`, jobs may have started and ended: to be backfilled from accounting
    backfill_until: Mapped[datetime | None]
    scanned_at: Mapped[datetime | None]
    mentions_at: Mapped[datetime | None]  # the last poll whose jobs' names, comments and commands were read
    heartbeat_at: Mapped[datetime | None]
    daemon_host: Mapped[str | None]
    daemon_pid: Mapped[int | None]
    daemon_version: Mapped[str | None]
    daemon_started_at: Mapped[datetime | None]
    # of the clock of its Slurm against that of the database, as far as it shares directories
    clock_ahead: Mapped[timedelta | None] = mapped_column("clock_ahead_seconds", key="clock_ahead")
    node_scan_count: Mapped[int | None]  # steps in users' jobs since then
    node_scan_seconds: Mapped[int | None]  # that these steps took


class RunTable(Base):
    """One run. `revision` rises with every change of its jobs, attempts or checkpoints."""

    __tablename__ = "runs"
    __table_args__ = (
        sa.UniqueConstraint("cluster", "uid", "directory_hash"),
        sa.Index(None, "cluster", "directory_hash"),
        sa.Index(None, "cluster", "recorded_since", "id"),
        sa.Index(
            "ix_runs_links",
            "uid",
            sqlite_where=sa.text("links IS NOT NULL"),
            postgresql_where=sa.text("links IS NOT NULL"),
        ),
    )

    id: Mapped[int] = primary_key()
    cluster: Mapped[str] = mapped_column(sa.ForeignKey("clusters.name"))
    uid: Mapped[int]
    directory: Mapped[str]
    directory_hash: Mapped[str] = mapped_column(sa.String(32))
    user: Mapped[str] = mapped_column(index=True)
    located_by: Mapped[str | None]
    recorded_since: Mapped[datetime]
    revision: Mapped[int]
    scanned_at: Mapped[datetime | None]
    unknown_what: Mapped[str | None]
    unknown_reason: Mapped[str | None]
    problems: Mapped[Any | None]
    leftovers: Mapped[Any | None]
    unrecognised_file: Mapped[Any | None]  # the newest one, as values of UnrecognisedFile
    free_bytes: Mapped[int | None]
    total_bytes: Mapped[int | None]
    quota_left_bytes: Mapped[int | None]
    quota_error: Mapped[str | None]
    filesystem_type: Mapped[str | None]
    retention_settings: Mapped[Any | None]  # settings of its owner's .ckptd.toml about retention
    user_settings: Mapped[Any | None]  # settings of that file for health rules and actions
    links: Mapped[Any | None]  # links that the last scan found, as values of SeenLink
    free_space_samples: Mapped[Any | None]  # at its directory: [seconds since the epoch, free bytes]
    summed_checkpoints: Mapped[Any | None]  # a SummedCheckpoints, with numbers of seconds since the epoch
    summed_revision: Mapped[int | None]  # the revision at which nothing more was to be summed up
    settled_fingerprint: Mapped[str | None] = mapped_column(sa.String(32))  # of the scan that agrees with the record
    settled_revision: Mapped[int | None]  # the revision for which it does
    settled_version: Mapped[str | None] = mapped_column(sa.String(64))  # of the ckptd that scanned
    settled_markers: Mapped[Any | None]  # of that scan


class JobTable(Base):
    """One job that has started. `in_queue` is true while it may still be in the queue, `ended_at` is set at its end."""

    __tablename__ = "jobs"
    __table_args__ = (
        sa.UniqueConstraint("cluster", "job_id", "first_seen_at"),
        sa.Index(None, "uid", "name", "id"),
        sa.Index(
            "uq_jobs_in_queue",
            "cluster",
            "job_id",
            unique=True,
            sqlite_where=sa.text("in_queue"),
            postgresql_where=sa.text("in_queue"),
        ),
        sa.Index(
            "ix_jobs_open",
            "cluster",
            "run_id",
            sqlite_where=sa.text("ended_at IS NULL"),
            postgresql_where=sa.text("ended_at IS NULL"),
        ),
        sa.Index(
            "ix_jobs_array",
            "cluster",
            "array_job_id",
            "array_task_id",
            sqlite_where=sa.text("array_job_id IS NOT NULL"),
            postgresql_where=sa.text("array_job_id IS NOT NULL"),
        ),
        sa.Index(
            "ix_jobs_awaiting_scan",
            "cluster",
            sqlite_where=sa.text("is_awaiting_scan"),
            postgresql_where=sa.text("is_awaiting_scan"),
        ),
    )

    id: Mapped[int] = primary_key()
    run_id: Mapped[int] = mapped_column(sa.ForeignKey("runs.id"), index=True)
    first_seen_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    in_queue: Mapped[bool]
    is_awaiting_scan: Mapped[bool | None]  # a missed job whose directory is still to be found and scanned
    suspended_until: Mapped[datetime | None]  # when it was last seen suspended; null while it is
    released_restart: Mapped[int | None]  # its restart count when it was last released from a hold
    cluster: Mapped[str] = mapped_column(sa.ForeignKey("clusters.name"))
    job_id: Mapped[int]
    array_job_id: Mapped[int | None]
    array_task_id: Mapped[int | None]
    array_task_limit: Mapped[int | None]
    het_job_id: Mapped[int | None]
    user: Mapped[str]
    uid: Mapped[int]
    account: Mapped[str]
    partition: Mapped[str]
    qos: Mapped[str]
    name: Mapped[str]
    state: Mapped[JobState]
    reason: Mapped[str]
    restart_count: Mapped[int]
    is_requeueable: Mapped[bool]
    time_limit: Mapped[timedelta | None] = mapped_column("time_limit_seconds", key="time_limit")
    time_left: Mapped[timedelta | None] = mapped_column("time_left_seconds", key="time_left")
    submitted_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    ends_at: Mapped[datetime | None]
    work_dir: Mapped[str | None]
    comment: Mapped[str]
    admin_comment: Mapped[str]
    dependency: Mapped[str]
    node_list: Mapped[str]
    batch_host: Mapped[str]
    node_count: Mapped[int]
    cpu_count: Mapped[int]
    gpu_count: Mapped[int]
    is_batch: Mapped[bool]
    mail_user: Mapped[str | None]


class AttemptTable(Base):
    """One execution of a job. Its run is the job's run at that time, because a job may move to another directory."""

    __tablename__ = "attempts"
    __table_args__ = (sa.UniqueConstraint("job_row", "restart_count"), sa.Index(None, "run_id", "ended_at"))

    id: Mapped[int] = primary_key()
    job_row: Mapped[int] = mapped_column(sa.ForeignKey("jobs.id"))
    run_id: Mapped[int] = mapped_column(sa.ForeignKey("runs.id"))
    restart_count: Mapped[int]
    array_job_id: Mapped[int | None]
    array_task_id: Mapped[int | None]
    kind: Mapped[RestartKind | None]
    state: Mapped[JobState]
    cause: Mapped[EndCause | None]
    first_seen_at: Mapped[datetime]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None] = mapped_column(index=True)
    time_limit: Mapped[timedelta | None] = mapped_column("time_limit_seconds", key="time_limit")
    partition: Mapped[str | None]
    node_count: Mapped[int]
    cpu_count: Mapped[int]
    gpu_count: Mapped[int]
    resumed_from: Mapped[str | None]  # the path in `resume`, for queries by people
    resume: Mapped[Any | None]  # what it resumed from, how surely, and why; null: not known yet
    is_resume_final: Mapped[bool | None]  # nothing more will be learned of it
    declared_resume: Mapped[str | None]  # the path that the job says it loaded
    suspensions: Mapped[Any | None]


class MentionTable(Base):
    """Paths that one queued job names, whether it has started or not. A job that names no path has no row."""

    __tablename__ = "mentions"
    __table_args__ = (sa.UniqueConstraint("cluster", "job_id"),)

    id: Mapped[int] = primary_key()
    cluster: Mapped[str] = mapped_column(sa.ForeignKey("clusters.name"))
    job_id: Mapped[int]
    uid: Mapped[int]
    user: Mapped[str]
    revision: Mapped[str] = mapped_column(sa.String(32))  # of all columns below, so that unchanged rows are read once
    is_waiting: Mapped[bool]
    started_at: Mapped[datetime | None]
    work_dir: Mapped[str | None]
    is_script_awaited: Mapped[bool]
    mentions: Mapped[Any]
    script_mentions: Mapped[Any | None]  # null: the script was not read
    resolved: Mapped[Any]
    links: Mapped[Any]


class LossTable(Base):
    """Lost work of one ended attempt: work that it had not saved, and saved work that is computed again.

    `day` is that of its end, in UTC.
    """

    __tablename__ = "losses"
    __table_args__ = (sa.Index(None, "cluster", "day"),)

    attempt_id: Mapped[int] = mapped_column(sa.ForeignKey("attempts.id"), primary_key=True, autoincrement=False)
    cluster: Mapped[str] = mapped_column(sa.ForeignKey("clusters.name"))
    day: Mapped[date]
    user: Mapped[str]
    account: Mapped[str]
    partition: Mapped[str]
    cause: Mapped[EndCause]
    ended_at: Mapped[datetime]
    saved_at: Mapped[datetime | None]
    lost: Mapped[timedelta] = mapped_column("lost_seconds", key="lost")
    node_seconds: Mapped[float]
    cpu_seconds: Mapped[float]
    gpu_seconds: Mapped[float]
    is_final: Mapped[bool]
    lost_high: Mapped[timedelta | None] = mapped_column("lost_high_seconds", key="lost_high")
    redone_low: Mapped[timedelta | None] = mapped_column("redone_low_seconds", key="redone_low")
    redone_high: Mapped[timedelta | None] = mapped_column("redone_high_seconds", key="redone_high")
    redone_certainty: Mapped[Certainty | None]
    read_at: Mapped[datetime | None]  # the last scan of the whole directory before a later attempt wrote to it


class CheckpointTable(Base):
    """One observed checkpoint; its path may have contained others before and after it.

    A large site has tens of millions of rows, so they are short: `stored_checkpoints` says what they leave out. Columns
    are in an order in which PostgreSQL does not pad them.
    """

    __tablename__ = "checkpoints"
    __table_args__ = (
        sa.Index(None, "run_id", "path_key"),
        sa.Index(
            "ix_checkpoints_present",
            "run_id",
            sqlite_where=sa.text("deleted_at IS NULL"),
            postgresql_where=sa.text("deleted_at IS NULL"),
        ),
        sa.Index(
            "ix_checkpoints_attempt_id",
            "attempt_id",
            sqlite_where=sa.text("attempt_id IS NOT NULL"),
            postgresql_where=sa.text("attempt_id IS NOT NULL"),
        ),
    )

    id: Mapped[int] = primary_key()
    first_seen_at: Mapped[datetime]
    modified_at: Mapped[datetime]
    completed_at: Mapped[datetime | None]
    started_writing_at: Mapped[datetime | None]
    deleted_at: Mapped[datetime | None]
    pruned_at: Mapped[datetime | None]
    verified_full_at: Mapped[datetime | None]
    owner_verified_at: Mapped[datetime | None]
    renamed_at: Mapped[datetime | None]
    size_bytes: Mapped[int]
    step: Mapped[int | None]
    epoch: Mapped[float | None]
    run_id: Mapped[int] = mapped_column(sa.Integer, sa.ForeignKey("runs.id"))
    path_key: Mapped[int] = mapped_column(sa.Integer)  # of `path`, for the index; not unique
    attempt_id: Mapped[int | None] = mapped_column(sa.Integer, sa.ForeignKey("attempts.id"))
    state: Mapped[CheckpointState]
    role: Mapped[Role | None]  # null: recorded before roles were known, and to be read again
    is_pinned: Mapped[bool]
    format: Mapped[str] = mapped_column(sa.String(64))
    path: Mapped[str]  # relative to the directory of its run
    members: Mapped[bytes]  # its files and their identities
    details: Mapped[bytes | None]
    owner_uids: Mapped[Any | None]  # null: the uid of its run alone
    unsafe: Mapped[Any | None]
    reason: Mapped[str | None]
    owner_damage: Mapped[str | None]
    comparisons: Mapped[Any | None]


class FlagTable(Base):
    """One flag, open while `resolved_at` is null."""

    __tablename__ = "flags"
    __table_args__ = (
        sa.Index(
            "ix_flags_open",
            "run_id",
            sqlite_where=sa.text("resolved_at IS NULL"),
            postgresql_where=sa.text("resolved_at IS NULL"),
        ),
    )

    id: Mapped[int] = primary_key()
    run_id: Mapped[int] = mapped_column(sa.ForeignKey("runs.id"), index=True)
    rule: Mapped[str] = mapped_column(sa.String(64))
    severity: Mapped[Severity]
    job_id: Mapped[int | None]
    user: Mapped[str]
    evidence: Mapped[Any]
    advice: Mapped[str]  # of flags that earlier versions recorded; empty since, because `present` words the evidence
    audience: Mapped[Any]
    opened_at: Mapped[datetime] = mapped_column(index=True)
    worsened_at: Mapped[datetime | None]
    resolved_at: Mapped[datetime | None] = mapped_column(index=True)


class NoticeTable(Base):
    """One notice of the outbox: recorded with its flags, claimed with others as one message, then with its outcome.

    `edge` identifies the change that it reports (rule, run, opened or resolved, when), so that none is reported twice.
    `message_id` groups the notices of one message that may have been sent: a retry has the same notices and id.
    """

    __tablename__ = "notices"
    __table_args__ = (
        sa.UniqueConstraint("recipient_hash", "channel", "edge"),
        sa.Index("ix_notices_due", "state", "next_try_at"),
        sa.Index(None, "cluster", "sent_at"),
        sa.Index(None, "cluster", "created_at"),
    )

    id: Mapped[int] = primary_key()
    cluster: Mapped[str | None] = mapped_column(sa.ForeignKey("clusters.name"))
    run_id: Mapped[int | None] = mapped_column(sa.ForeignKey("runs.id"), index=True)
    recipient: Mapped[str]
    recipient_hash: Mapped[str] = mapped_column(sa.String(32))
    channel: Mapped[str] = mapped_column(sa.String(64))
    edge: Mapped[str] = mapped_column(sa.String(128))
    kind: Mapped[str | None] = mapped_column(sa.String(16))
    severity: Mapped[Severity | None]
    topic: Mapped[str | None] = mapped_column(sa.String(32), index=True)
    state: Mapped[str] = mapped_column(sa.String(16))
    payload: Mapped[Any]
    created_at: Mapped[datetime]
    due_at: Mapped[datetime | None]
    claimed_at: Mapped[datetime | None]
    next_try_at: Mapped[datetime | None]
    sent_at: Mapped[datetime | None]
    try_count: Mapped[int]
    message_id: Mapped[str | None]
    last_error: Mapped[str | None]


class AuditTable(Base):
    """One action, recorded before it happens. An action without an end was interrupted."""

    __tablename__ = "audit"
    __table_args__ = (
        sa.Index(
            "ix_audit_unfinished",
            "cluster",
            sqlite_where=sa.text("finished_at IS NULL"),
            postgresql_where=sa.text("finished_at IS NULL"),
        ),
        sa.Index("uq_audit_once", "cluster", "once_key", unique=True),
    )

    id: Mapped[int] = primary_key()
    cluster: Mapped[str] = mapped_column(sa.ForeignKey("clusters.name"))
    run_id: Mapped[int | None] = mapped_column(sa.ForeignKey("runs.id"), index=True)
    plan_id: Mapped[str | None] = mapped_column(sa.String(64), index=True)
    actor: Mapped[str]
    action: Mapped[str] = mapped_column(sa.String(64))
    target: Mapped[str]
    reasons: Mapped[Any]
    details: Mapped[Any]
    begun_at: Mapped[datetime] = mapped_column(index=True)
    finished_at: Mapped[datetime | None]
    outcome: Mapped[str | None]
    lease_epoch: Mapped[int | None]  # of the process that recorded it
    once_key: Mapped[str | None] = mapped_column(sa.String(64))  # what must not be begun twice
