"""${message}

Rules for migrations:
- One step forward; nobody goes back: a downgrade is the backup from before. Say in this text what changes and why.
- No import from ckptd.core or ckptd.store.tables: a migration must mean the same for ever. Plain column types only.
- It runs on SQLite and PostgreSQL: use op.batch_alter_table to change a table, test both, and with rows in them.
- It runs while an older reader may still look: first add columns that may be null, fill them in a second
  statement, tighten in the next release.
- PostgreSQL: no table rewrite of checkpoints; indexes on it are built CONCURRENTLY in a migration of their own.
- No more than one statement may touch more than 100,000 rows.
"""

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
