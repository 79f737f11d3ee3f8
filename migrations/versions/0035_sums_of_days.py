"""Lost work is summed up once for each day, so that reports and metrics do not add up the rows of a year.

Adds two tables, which the daemon fills during the daily expiry of records, and a small index for links to checkpoints.
An index of attempts gets their end, so that a user's latest runs are found without reading all attempts of that user.
"""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

WHOLE = ("observed_seconds", "attempt_count", "unknown_count", "redone_unknown_count")
SUMS = tuple(
    f"{part}{unit}seconds"
    for part in ("", "high_", "redone_", "redone_high_")
    for unit in ("", "node_", "cpu_", "gpu_")
)


def upgrade() -> None:
    op.create_table(
        "summed_days",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name="fk_summed_days_cluster_clusters"),
        sa.PrimaryKeyConstraint("cluster", "day", name="pk_summed_days"),
    )
    op.create_table(
        "day_sums",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("cause", sa.String(32), nullable=False),
        sa.Column("node_count", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in WHOLE),
        *(sa.Column(name, sa.Double(), nullable=False) for name in SUMS),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name="fk_day_sums_cluster_clusters"),
        sa.PrimaryKeyConstraint("id", name="pk_day_sums"),
    )
    op.create_index("ix_day_sums_cluster_day", "day_sums", ["cluster", "day"])
    has_links = sa.text("links IS NOT NULL")
    op.create_index("ix_runs_links", "runs", ["uid"], sqlite_where=has_links, postgresql_where=has_links)
    op.drop_index("ix_attempts_run_id", "attempts")
    op.create_index("ix_attempts_run_id_ended_at", "attempts", ["run_id", "ended_at"])
