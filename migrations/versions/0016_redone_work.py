"""Saved work that later attempts compute again, in the ledger of lost work.

Adds columns that may be null; lines are completed when their run is scanned next.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("losses", sa.Column("redone_low_seconds", sa.Double(), nullable=True))
    op.add_column("losses", sa.Column("redone_high_seconds", sa.Double(), nullable=True))
    op.add_column("losses", sa.Column("redone_certainty", sa.String(length=32), nullable=True))
