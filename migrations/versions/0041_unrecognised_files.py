"""The newest file of no known format in a run's directory, which may be a checkpoint.

Adds a column that is empty until a scan finds such a file.
"""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("unrecognised_file", sa.Text(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("runs") as table:
        table.drop_column("unrecognised_file")
