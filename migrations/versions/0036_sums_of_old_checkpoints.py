"""Deleted checkpoints of runs that ended long ago are summed up: a run's row has the sums, and at which revision.

The sums are not undone: what is left of such a run is shorter after a downgrade, too.
"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("summed_checkpoints", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("summed_revision", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("runs") as table:
        table.drop_column("summed_revision")
        table.drop_column("summed_checkpoints")
