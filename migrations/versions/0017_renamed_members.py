"""When a file in a checkpoint was first seen renamed: such a checkpoint is never pruned.

Adds a column that may be null: what was renamed before is not known.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("checkpoints", sa.Column("renamed_at", sa.DateTime(timezone=True), nullable=True))
