"""What a new start of the daemon could not derive from other rows.

Adds to `runs` what the owner's `.ckptd.toml` says to rules and acts, which is read only when a job's directory is
searched for, and the last samples of the room at its directory; to `jobs` when each was last seen suspended. Nothing
need be filled in: all three are written again as looks go on.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("wishes", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("room", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("suspended_until", sa.DateTime(timezone=True), nullable=True))
