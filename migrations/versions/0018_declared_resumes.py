"""What the jobs themselves say that they loaded.

Adds a column that may be null.
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("declared_resume", sa.Text(), nullable=True))
