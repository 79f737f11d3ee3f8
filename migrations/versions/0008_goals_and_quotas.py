"""How far a training shall go, where its checkpoints say so, and how much of its owner's quota is left.

Adds two columns to `checkpoints`, which the run's next save fills, and two to `runs`, which its next look fills.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("checkpoints", sa.Column("goal_epoch", sa.Double(), nullable=True))
    op.add_column("checkpoints", sa.Column("goal_step", sa.BigInteger(), nullable=True))
    op.add_column("runs", sa.Column("quota_left_bytes", sa.BigInteger(), nullable=True))
    op.add_column("runs", sa.Column("quota_trouble", sa.Text(), nullable=True))
