"""Nothing was ever written to these columns.

Drops `flag_id` from `notices`, which name what they are about by their topic, and `sluid` from `jobs`.
"""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("notices") as table:
        table.drop_index("ix_notices_flag_id")
        table.drop_constraint("fk_notices_flag_id_flags", type_="foreignkey")
        table.drop_column("flag_id")
    op.drop_column("jobs", "sluid")
