"""What checkpoints prove about the program that wrote them: how often it was continued, and which computation it is.

Adds columns that may be null; they are filled for checkpoints that are read from now on.
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("checkpoints", sa.Column("continued_count", sa.BigInteger(), nullable=True))
    op.add_column("checkpoints", sa.Column("computation", sa.Text(), nullable=True))
