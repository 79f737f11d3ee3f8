"""When a job was last let go on from a hold: what it did before counts for nothing, after a new start of ckptd, too.

Adds to `jobs` the restart count that it had then; none for jobs from before.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("released_restart", sa.BigInteger(), nullable=True))
