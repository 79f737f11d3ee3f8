"""The further locations of runs: directories where their checkpoints are copied to.

Adds a table.
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_IDENTIFIER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "locations",
        sa.Column("id", _IDENTIFIER, sa.Identity(), nullable=False),
        sa.Column("run_id", _IDENTIFIER, nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("directory_hash", sa.String(length=32), nullable=False),
        sa.Column("trouble", sa.Text(), nullable=True),
        sa.Column("is_absent", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_locations")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_locations_run_id_runs")),
        sa.UniqueConstraint("run_id", "ordinal", name=op.f("uq_locations_run_id_ordinal")),
    )
    op.create_index(op.f("ix_locations_directory_hash"), "locations", ["directory_hash"])
