"""What a checkpoint can be used for, which files belong to it, and how that is known.

Adds columns to `checkpoints` that may be null; the next scan fills them. Rows from before hold no change times of their
files either, so every checkpoint is read once more.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("checkpoints", sa.Column("content_epoch", sa.Double(), nullable=True))
    op.add_column("checkpoints", sa.Column("content_step", sa.BigInteger(), nullable=True))
    op.add_column("checkpoints", sa.Column("role", sa.String(32), nullable=True))
    op.add_column("checkpoints", sa.Column("role_evidence", sa.Text(), nullable=True))
    op.add_column("checkpoints", sa.Column("is_result", sa.Boolean(), nullable=True))
    op.add_column("checkpoints", sa.Column("grouping", sa.Text(), nullable=True))
    op.add_column("checkpoints", sa.Column("parts", sa.Text(), nullable=True))
