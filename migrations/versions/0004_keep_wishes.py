"""What a run's owner wishes to keep, so that commands and the daemon plan alike.

Adds to `runs` the part of `.ckptd.toml` that is about keeping. It is read again with each job of the run, so that
nothing need be filled in.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("keep_wishes", sa.Text(), nullable=True))
