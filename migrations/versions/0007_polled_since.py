"""Since when the queue was followed without a gap, so that the next job of a run can be told from an unseen one.

Adds to `clusters` the first of an unbroken chain of looks at the queue. The next look fills it in.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("clusters", sa.Column("polled_since", sa.DateTime(timezone=True), nullable=True))
