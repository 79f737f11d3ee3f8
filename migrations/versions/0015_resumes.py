"""What an attempt resumed from, with its certainty and evidence.

Adds columns that may be null. The paths that earlier versions recorded were those of the newest checkpoint that was
there, which attempts may not have loaded: they are removed, and found anew for attempts that are under way.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("resume", sa.Text(), nullable=True))
    op.add_column("attempts", sa.Column("is_resume_final", sa.Boolean(), nullable=True))
    op.execute("UPDATE attempts SET resumed_from = NULL WHERE resumed_from IS NOT NULL")
