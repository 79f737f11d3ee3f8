"""When the directory of an ended attempt was last read before a later attempt may have deleted what it held.

Rows that exist keep what they say: their directory counts as read at the end.
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("losses", sa.Column("read_at", sa.DateTime(timezone=True), nullable=True))
    op.execute("UPDATE losses SET read_at = ended_at")
