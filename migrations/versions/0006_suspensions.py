"""When attempts were suspended: that time is no work, and none of it is lost.

Adds to `attempts` a list of pairs of instants; none for attempts from before, as for those that never were.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("suspensions", sa.Text(), nullable=True))
