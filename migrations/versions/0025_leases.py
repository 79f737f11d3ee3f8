"""One acting daemon per cluster: leases, the processes that wait for one, and actions that are recorded only once.

Adds two tables, and two columns of the audit that may be null. No row changes: a row without a key is unique with any
other.
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("renewal", sa.BigInteger(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=True),
        sa.Column("program", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("pid", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.Text(), nullable=True),
        sa.Column("acquired_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("renewed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("cluster", name="pk_leases"),
    )
    op.create_table(
        "standbys",
        sa.Column("instance", sa.String(64), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("program", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("instance", name="pk_standbys"),
    )
    op.add_column("audit", sa.Column("lease_epoch", sa.BigInteger(), nullable=True))
    op.add_column("audit", sa.Column("once_key", sa.String(64), nullable=True))
    op.create_index("uq_audit_once", "audit", ["cluster", "once_key"], unique=True)
