"""The table of verification tickets: requests that jobs of the owners carry out."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from ckptd.store.table_base import Base


class VerificationTicketTable(Base):
    """One request whose result is not recorded yet. `tasks` are the pieces of checkpoints that each task reads."""

    __tablename__ = "verification_tickets"

    name: Mapped[str] = mapped_column(sa.String(16), primary_key=True)
    run_id: Mapped[int] = mapped_column(sa.ForeignKey("runs.id"), index=True)
    requested_at: Mapped[datetime]
    tasks: Mapped[Any]
    is_comparison: Mapped[bool]  # each task reads for digests
    is_scan: Mapped[bool]  # each task lists the directory, and reads its share of the checkpoints
    job_id: Mapped[int | None]
    try_count: Mapped[int]
    silent_since: Mapped[datetime | None]
    watched_at: Mapped[datetime | None]
    end_reason: Mapped[str | None]
