"""Which tickets are about the first scan of a directory: none of those that are open."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "verification_tickets",
        sa.Column("is_scan", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
