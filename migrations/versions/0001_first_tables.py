"""The first tables: clusters, runs, jobs, attempts, checkpoints, flags, notices and the audit."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

IDENTIFIER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_clusters()
    _create_runs()
    _create_audit()
    _create_flags()
    _create_jobs()
    _create_attempts()
    _create_notices()
    _create_checkpoints()


def _create_clusters() -> None:
    op.create_table(
        "clusters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("polled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("poll_failed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("unknown_what", sa.Text(), nullable=True),
        sa.Column("unknown_reason", sa.Text(), nullable=True),
        sa.Column("scanned_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("daemon_host", sa.Text(), nullable=True),
        sa.Column("daemon_pid", sa.BigInteger(), nullable=True),
        sa.Column("daemon_version", sa.Text(), nullable=True),
        sa.Column("daemon_started_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_clusters"),
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", IDENTIFIER, sa.Identity(always=False), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("directory_hash", sa.String(length=32), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("located_by", sa.Text(), nullable=True),
        sa.Column("recorded_since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("scanned_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("unknown_what", sa.Text(), nullable=True),
        sa.Column("unknown_reason", sa.Text(), nullable=True),
        sa.Column("problems", sa.Text(), nullable=True),
        sa.Column("leftovers", sa.Text(), nullable=True),
        sa.Column("free_bytes", sa.BigInteger(), nullable=True),
        sa.Column("total_bytes", sa.BigInteger(), nullable=True),
        sa.Column("filesystem_type", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name="fk_runs_cluster_clusters"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("cluster", "uid", "directory_hash", name="uq_runs_cluster_uid_directory_hash"),
    )
    op.create_index("ix_runs_cluster_directory_hash", "runs", ["cluster", "directory_hash"], unique=False)


def _create_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", IDENTIFIER, sa.Identity(always=False), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("run_id", IDENTIFIER, nullable=True),
        sa.Column("plan_id", sa.String(length=64), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name="fk_audit_cluster_clusters"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_audit_run_id_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_begun_at", "audit", ["begun_at"], unique=False)
    op.create_index("ix_audit_plan_id", "audit", ["plan_id"], unique=False)
    op.create_index("ix_audit_run_id", "audit", ["run_id"], unique=False)
    op.create_index(
        "ix_audit_unfinished",
        "audit",
        ["cluster"],
        unique=False,
        sqlite_where=sa.text("finished_at IS NULL"),
        postgresql_where=sa.text("finished_at IS NULL"),
    )


def _create_flags() -> None:
    op.create_table(
        "flags",
        sa.Column("id", IDENTIFIER, sa.Identity(always=False), nullable=False),
        sa.Column("run_id", IDENTIFIER, nullable=False),
        sa.Column("rule", sa.String(length=64), nullable=False),
        sa.Column("severity", sa.String(length=32), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("advice", sa.Text(), nullable=False),
        sa.Column("tells", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("worsened_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("resolved_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_flags_run_id_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_flags"),
    )
    op.create_index(
        "ix_flags_open",
        "flags",
        ["run_id"],
        unique=False,
        sqlite_where=sa.text("resolved_at IS NULL"),
        postgresql_where=sa.text("resolved_at IS NULL"),
    )
    op.create_index("ix_flags_opened_at", "flags", ["opened_at"], unique=False)
    op.create_index("ix_flags_run_id", "flags", ["run_id"], unique=False)


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", IDENTIFIER, sa.Identity(always=False), nullable=False),
        sa.Column("run_id", IDENTIFIER, nullable=False),
        sa.Column("first_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("in_queue", sa.Boolean(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("array_job_id", sa.BigInteger(), nullable=True),
        sa.Column("array_task_id", sa.BigInteger(), nullable=True),
        sa.Column("array_task_limit", sa.BigInteger(), nullable=True),
        sa.Column("het_job_id", sa.BigInteger(), nullable=True),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("qos", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("restart_count", sa.BigInteger(), nullable=False),
        sa.Column("is_requeueable", sa.Boolean(), nullable=False),
        sa.Column("time_limit_seconds", sa.Double(), nullable=True),
        sa.Column("time_left_seconds", sa.Double(), nullable=True),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("work_dir", sa.Text(), nullable=True),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("admin_comment", sa.Text(), nullable=False),
        sa.Column("dependency", sa.Text(), nullable=False),
        sa.Column("node_list", sa.Text(), nullable=False),
        sa.Column("batch_host", sa.Text(), nullable=False),
        sa.Column("node_count", sa.BigInteger(), nullable=False),
        sa.Column("cpu_count", sa.BigInteger(), nullable=False),
        sa.Column("gpu_count", sa.BigInteger(), nullable=False),
        sa.Column("is_batch", sa.Boolean(), nullable=False),
        sa.Column("mail_user", sa.Text(), nullable=True),
        sa.Column("sluid", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name="fk_jobs_cluster_clusters"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_jobs_run_id_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("cluster", "job_id", "first_seen_at", name="uq_jobs_cluster_job_id_first_seen_at"),
    )
    op.create_index(
        "ix_jobs_open",
        "jobs",
        ["cluster", "run_id"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index("ix_jobs_run_id", "jobs", ["run_id"], unique=False)
    op.create_index(
        "uq_jobs_in_queue",
        "jobs",
        ["cluster", "job_id"],
        unique=True,
        sqlite_where=sa.text("in_queue"),
        postgresql_where=sa.text("in_queue"),
    )


def _create_attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", IDENTIFIER, sa.Identity(always=False), nullable=False),
        sa.Column("job_row", IDENTIFIER, nullable=False),
        sa.Column("run_id", IDENTIFIER, nullable=False),
        sa.Column("restart_count", sa.BigInteger(), nullable=False),
        sa.Column("array_job_id", sa.BigInteger(), nullable=True),
        sa.Column("array_task_id", sa.BigInteger(), nullable=True),
        sa.Column("kind", sa.String(length=32), nullable=True),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("cause", sa.String(length=32), nullable=True),
        sa.Column("first_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("time_limit_seconds", sa.Double(), nullable=True),
        sa.Column("node_count", sa.BigInteger(), nullable=False),
        sa.Column("cpu_count", sa.BigInteger(), nullable=False),
        sa.Column("gpu_count", sa.BigInteger(), nullable=False),
        sa.Column("resumed_from", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["job_row"], ["jobs.id"], name="fk_attempts_job_row_jobs"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_attempts_run_id_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
        sa.UniqueConstraint("job_row", "restart_count", name="uq_attempts_job_row_restart_count"),
    )
    op.create_index("ix_attempts_ended_at", "attempts", ["ended_at"], unique=False)
    op.create_index("ix_attempts_run_id", "attempts", ["run_id"], unique=False)


def _create_notices() -> None:
    op.create_table(
        "notices",
        sa.Column("id", IDENTIFIER, sa.Identity(always=False), nullable=False),
        sa.Column("run_id", IDENTIFIER, nullable=True),
        sa.Column("flag_id", IDENTIFIER, nullable=True),
        sa.Column("recipient", sa.Text(), nullable=False),
        sa.Column("recipient_hash", sa.String(length=32), nullable=False),
        sa.Column("channel", sa.String(length=64), nullable=False),
        sa.Column("edge", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_try_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("try_count", sa.BigInteger(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("trouble", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["flag_id"], ["flags.id"], name="fk_notices_flag_id_flags"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_notices_run_id_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_notices"),
        sa.UniqueConstraint("recipient_hash", "channel", "edge", name="uq_notices_recipient_hash_channel_edge"),
    )
    op.create_index("ix_notices_due", "notices", ["state", "next_try_at"], unique=False)
    op.create_index("ix_notices_flag_id", "notices", ["flag_id"], unique=False)
    op.create_index("ix_notices_run_id", "notices", ["run_id"], unique=False)


def _create_checkpoints() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("id", IDENTIFIER, sa.Identity(always=False), nullable=False),
        sa.Column("run_id", IDENTIFIER, nullable=False),
        sa.Column("attempt_id", IDENTIFIER, nullable=True),
        sa.Column("first_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_writing_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("gone_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pruned_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("verified_full_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("is_pinned", sa.Boolean(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("path_hash", sa.String(length=32), nullable=False),
        sa.Column("format", sa.String(length=64), nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.Column("identities", sa.Text(), nullable=False),
        sa.Column("owner_uids", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("modified_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("level", sa.String(length=32), nullable=False),
        sa.Column("epoch", sa.Double(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("name_epoch", sa.Double(), nullable=True),
        sa.Column("name_step", sa.BigInteger(), nullable=True),
        sa.Column("is_best", sa.Boolean(), nullable=True),
        sa.Column("is_newest", sa.Boolean(), nullable=True),
        sa.Column("metrics", sa.Text(), nullable=False),
        sa.Column("unsafe", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_checkpoints_attempt_id_attempts"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_checkpoints_run_id_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_checkpoints"),
        sa.UniqueConstraint(
            "run_id",
            "path_hash",
            "format",
            "first_seen_at",
            name="uq_checkpoints_run_id_path_hash_format_first_seen_at",
        ),
    )
    op.create_index("ix_checkpoints_attempt_id", "checkpoints", ["attempt_id"], unique=False)
    op.create_index(
        "ix_checkpoints_present",
        "checkpoints",
        ["run_id"],
        unique=False,
        sqlite_where=sa.text("gone_at IS NULL"),
        postgresql_where=sa.text("gone_at IS NULL"),
    )
    op.create_index("ix_checkpoints_run_id_first_seen_at", "checkpoints", ["run_id", "first_seen_at"], unique=False)
