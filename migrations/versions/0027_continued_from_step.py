"""From which step the program was continued that wrote a checkpoint, as GROMACS counts it.

Adds a column that may be null; it is filled for checkpoints that are read from now on.
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("checkpoints", sa.Column("continued_from_step", sa.BigInteger(), nullable=True))
