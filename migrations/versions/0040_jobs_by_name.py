"""An index that finds a user's latest jobs of one name.

Whether earlier jobs like a new one have saved checkpoints is asked about each job whose directory is not known yet.
Without the index, all jobs on record of its user are read.
"""

from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_jobs_uid_name_id", "jobs", ["uid", "name", "id"])
