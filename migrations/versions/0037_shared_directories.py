"""Which directories each cluster declares to share with another one.

Adds a table that the daemons fill at their start and after each reload, and a column for the clock of each cluster.
"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "shared_directories",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("other_cluster", sa.Text(), nullable=False),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name="fk_shared_directories_cluster_clusters"),
        sa.PrimaryKeyConstraint("id", name="pk_shared_directories"),
    )
    op.add_column("clusters", sa.Column("clock_ahead_seconds", sa.Double(), nullable=True))
    op.create_index("ix_shared_directories_cluster", "shared_directories", ["cluster"])
