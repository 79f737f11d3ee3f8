"""Give columns the names that the documentation uses for what is in them.

Renames columns and one index; no row changes, and no table is rewritten. An older program cannot read these columns and
refuses the new revision when it is started again.
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_RENAMED = (
    ("clusters", "unseen_since", "backfill_since"),
    ("clusters", "unseen_until", "backfill_until"),
    ("runs", "keep_wishes", "retention_settings"),
    ("runs", "wishes", "user_settings"),
    ("jobs", "is_awaiting_look", "is_awaiting_scan"),
    ("losses", "is_settled", "is_final"),
    ("losses", "lost_most_seconds", "lost_high_seconds"),
    ("flags", "tells", "audience"),
)


def upgrade() -> None:
    op.drop_index("ix_jobs_awaiting_look", table_name="jobs")
    for table, old, new in _RENAMED:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    op.create_index(
        "ix_jobs_awaiting_scan",
        "jobs",
        ["cluster"],
        sqlite_where=sa.text("is_awaiting_scan"),
        postgresql_where=sa.text("is_awaiting_scan"),
    )
