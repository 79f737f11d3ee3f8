"""The most that an attempt can have lost, where nobody knows what it saved.

Adds a column that may be null: then `lost_seconds` is all.
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("losses", sa.Column("lost_most_seconds", sa.Double(), nullable=True))
