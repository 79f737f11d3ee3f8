"""The ledger of lost work: one line for each attempt that ended.

Adds the table `losses`, and to `attempts` the partition in which each ran: a job that waits again shows all the
partitions that it may run in. Attempts from before have none, and count in their job's.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

IDENTIFIER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("attempts", sa.Column("partition", sa.Text(), nullable=True))
    op.create_table(
        "losses",
        sa.Column("attempt_id", IDENTIFIER, autoincrement=False, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("cause", sa.String(length=32), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("saved_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lost_seconds", sa.Double(), nullable=False),
        sa.Column("node_seconds", sa.Double(), nullable=False),
        sa.Column("cpu_seconds", sa.Double(), nullable=False),
        sa.Column("gpu_seconds", sa.Double(), nullable=False),
        sa.Column("is_settled", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_losses_attempt_id_attempts"),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name="fk_losses_cluster_clusters"),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_losses"),
    )
    op.create_index("ix_losses_cluster_day", "losses", ["cluster", "day"])
