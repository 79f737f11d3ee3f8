"""The scan with which a run's record agrees, so that a restarted daemon need not list its checkpoints again.

Adds four columns; they are empty until the next scan of each run.
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("settled_fingerprint", sa.String(32), nullable=True))
    op.add_column("runs", sa.Column("settled_revision", sa.BigInteger(), nullable=True))
    op.add_column("runs", sa.Column("settled_version", sa.String(64), nullable=True))
    op.add_column("runs", sa.Column("settled_markers", sa.Text(), nullable=True))
