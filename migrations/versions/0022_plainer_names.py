"""Give four more columns the names that the documentation uses for their content.

Renames columns; no row changes, and no table is rewritten. The databases adapt the indexes on these columns themselves.
An older program cannot read these columns and refuses the new revision when it is started again.
"""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_RENAMED = (
    ("checkpoints", "gone_at", "deleted_at"),
    ("runs", "room", "free_space_samples"),
    ("runs", "quota_trouble", "quota_error"),
    ("notices", "trouble", "last_error"),
)


def upgrade() -> None:
    for table, old, new in _RENAMED:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
