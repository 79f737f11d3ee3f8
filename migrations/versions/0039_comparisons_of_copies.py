"""What reading every byte of copies and of their originals has shown, and which open tickets are about that.

Adds a column that is empty until the first comparison, and one that says what a ticket's jobs do: all that are open
verify checkpoints.
"""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("checkpoints", sa.Column("comparisons", sa.Text(), nullable=True))
    op.add_column(
        "verification_tickets",
        sa.Column("is_comparison", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
