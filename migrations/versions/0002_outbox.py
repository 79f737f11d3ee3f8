"""What the outbox must know of a notice to make digests and to tell nothing twice.

Adds to `notices` its cluster (several share one database), the kind of its edge, its severity, its topic
and when its window ends. No
earlier version wrote notices, so there is nothing to fill; the columns may be null as long as an older reader may look.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("notices") as table:
        table.add_column(sa.Column("cluster", sa.Text(), nullable=True))
        table.add_column(sa.Column("kind", sa.String(length=16), nullable=True))
        table.add_column(sa.Column("severity", sa.String(length=32), nullable=True))
        table.add_column(sa.Column("topic", sa.String(length=32), nullable=True))
        table.add_column(sa.Column("due_at", sa.DateTime(timezone=True), nullable=True))
        table.create_foreign_key("fk_notices_cluster_clusters", "clusters", ["cluster"], ["name"])
        table.create_index("ix_notices_topic", ["topic"])
