"""Full verifications by jobs of the owners: their open tickets, and what such jobs said of checkpoints.

Adds a table and two columns that are empty until the first such job. What a job of the owner says has a column of its
own, because `verified_full_at` decides what retention keeps.
"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("checkpoints", sa.Column("owner_verified_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("checkpoints", sa.Column("owner_damage", sa.Text(), nullable=True))
    op.create_table(
        "verification_tickets",
        sa.Column("name", sa.String(16), nullable=False),
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tasks", sa.Text(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("try_count", sa.BigInteger(), nullable=False),
        sa.Column("silent_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("watched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("end_reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_verification_tickets_run_id_runs"),
        sa.PrimaryKeyConstraint("name", name="pk_verification_tickets"),
    )
    op.create_index("ix_verification_tickets_run_id", "verification_tickets", ["run_id"])
