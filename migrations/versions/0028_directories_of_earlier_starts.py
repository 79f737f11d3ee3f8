"""Which further locations of a run are directories that its earlier starts saved to.

Adds a column; every location on record was named for copies.
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("locations", sa.Column("is_earlier", sa.Boolean(), nullable=False, server_default=sa.false()))
