"""The tables of leases: who acts for a cluster, and who waits to."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from ckptd.store.table_base import Base


class LeaseTable(Base):
    """The lease of one cluster. `epoch` rises with every new holder, `renewal` with every renewal; neither ever falls.

    `instance` and what follows describe the holder; they are null after it has released the lease.
    """

    __tablename__ = "leases"

    cluster: Mapped[str] = mapped_column(primary_key=True)
    epoch: Mapped[int]
    renewal: Mapped[int]
    instance: Mapped[str | None]
    program: Mapped[str | None]
    host: Mapped[str | None]
    pid: Mapped[int | None]
    version: Mapped[str | None]
    acquired_at: Mapped[datetime | None]
    renewed_at: Mapped[datetime | None]


class StandbyTable(Base):
    """One daemon that waits for the lease of a cluster, and when it last said so."""

    __tablename__ = "standbys"

    instance: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    cluster: Mapped[str]
    program: Mapped[str]
    host: Mapped[str]
    pid: Mapped[int]
    version: Mapped[str]
    seen_at: Mapped[datetime]
