"""One index of checkpoints less: the unique one begins with the run, too, and no query reads a run by time alone.

Rows of checkpoints that are written from now on have shorter texts; those on record stay as they are.
"""

from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_checkpoints_run_id_first_seen_at", table_name="checkpoints")
