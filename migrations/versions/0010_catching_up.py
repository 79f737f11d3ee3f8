"""What is still to be made up for after a time in which nobody looked at the queue.

Adds to `clusters` the time of which accounting has not told yet, and to `jobs` whether a job that was over before it
was ever seen has yet to have its directory found and read; none for jobs from before.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("clusters", sa.Column("unseen_since", sa.DateTime(timezone=True), nullable=True))
    op.add_column("clusters", sa.Column("unseen_until", sa.DateTime(timezone=True), nullable=True))
    op.add_column("jobs", sa.Column("is_awaiting_look", sa.Boolean(), nullable=True))
    op.create_index(
        "ix_jobs_awaiting_look",
        "jobs",
        ["cluster"],
        sqlite_where=sa.text("is_awaiting_look"),
        postgresql_where=sa.text("is_awaiting_look"),
    )
