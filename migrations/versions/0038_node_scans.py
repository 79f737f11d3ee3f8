"""How many steps in users' jobs scanned locations that only nodes see, and how long they took.

Adds two columns, counted from the start of the daemon; they are empty until its next heartbeat.
"""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("clusters", sa.Column("node_scan_count", sa.BigInteger(), nullable=True))
    op.add_column("clusters", sa.Column("node_scan_seconds", sa.BigInteger(), nullable=True))
