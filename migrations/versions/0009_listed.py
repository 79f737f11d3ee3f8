"""Which checkpoints an index of their format lists.

Adds a column to `checkpoints`, which the next look fills.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("checkpoints", sa.Column("is_listed", sa.Boolean(), nullable=True))
