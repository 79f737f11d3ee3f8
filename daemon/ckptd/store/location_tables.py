"""The table of the further locations of runs."""

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from ckptd.store.table_base import Base, primary_key


class LocationTable(Base):
    """One further directory of a run: copies of its checkpoints, or those of earlier starts.

    The run's own directory is its primary location.

    What is in it is on record as a run of the same owner at that directory, where it can be scanned.
    """

    __tablename__ = "locations"
    __table_args__ = (sa.UniqueConstraint("run_id", "ordinal"), sa.Index(None, "directory_hash"))

    id: Mapped[int] = primary_key()
    run_id: Mapped[int] = mapped_column(sa.ForeignKey("runs.id"))
    ordinal: Mapped[int]  # in the order of the declaration, from 1
    directory: Mapped[str]
    directory_hash: Mapped[str] = mapped_column(sa.String(32))
    trouble: Mapped[str | None]  # why it is not scanned
    is_absent: Mapped[bool]  # nobody has made it yet
    is_earlier: Mapped[bool]  # earlier starts saved there: it holds no copies
