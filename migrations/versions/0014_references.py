"""What links and jobs in the queue name, so that no checkpoint is pruned that somebody still means.

Adds a table for jobs and columns that may be null; the next poll and the next scans fill them. Until then pruning
takes every checkpoint for named.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

IDENTIFIER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("clusters", sa.Column("mentions_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("runs", sa.Column("links", sa.Text(), nullable=True))
    op.create_table(
        "mentions",
        sa.Column("id", IDENTIFIER, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("revision", sa.String(length=32), nullable=False),
        sa.Column("is_waiting", sa.Boolean(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("work_dir", sa.Text(), nullable=True),
        sa.Column("is_script_awaited", sa.Boolean(), nullable=False),
        sa.Column("mentions", sa.Text(), nullable=False),
        sa.Column("script_mentions", sa.Text(), nullable=True),
        sa.Column("resolved", sa.Text(), nullable=False),
        sa.Column("links", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name="fk_mentions_cluster_clusters"),
        sa.PrimaryKeyConstraint("id", name="pk_mentions"),
        sa.UniqueConstraint("cluster", "job_id", name="uq_mentions_cluster_job_id"),
    )
