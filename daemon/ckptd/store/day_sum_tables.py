"""Tables of the lost work of ended attempts, summed up for each day."""

from datetime import date

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from ckptd.core.model import EndCause
from ckptd.store.table_base import Base, primary_key


class SummedDayTable(Base):
    """One day of a cluster of which DaySumTable has the sums. A change of its lost work deletes this row and them."""

    __tablename__ = "summed_days"

    cluster: Mapped[str] = mapped_column(sa.ForeignKey("clusters.name"), primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)


class DaySumTable(Base):
    """The sums over the attempts of a day that are alike: a LossTotal, and how long they ran, in whole seconds."""

    __tablename__ = "day_sums"
    __table_args__ = (sa.Index(None, "cluster", "day"),)

    id: Mapped[int] = primary_key()
    cluster: Mapped[str] = mapped_column(sa.ForeignKey("clusters.name"))
    day: Mapped[date]
    user: Mapped[str]
    uid: Mapped[int]
    account: Mapped[str]
    partition: Mapped[str]
    cause: Mapped[EndCause]
    node_count: Mapped[int]
    observed_seconds: Mapped[int]
    attempt_count: Mapped[int]
    unknown_count: Mapped[int]
    redone_unknown_count: Mapped[int]
    seconds: Mapped[float]
    node_seconds: Mapped[float]
    cpu_seconds: Mapped[float]
    gpu_seconds: Mapped[float]
    high_seconds: Mapped[float]
    high_node_seconds: Mapped[float]
    high_cpu_seconds: Mapped[float]
    high_gpu_seconds: Mapped[float]
    redone_seconds: Mapped[float]
    redone_node_seconds: Mapped[float]
    redone_cpu_seconds: Mapped[float]
    redone_gpu_seconds: Mapped[float]
    redone_high_seconds: Mapped[float]
    redone_high_node_seconds: Mapped[float]
    redone_high_cpu_seconds: Mapped[float]
    redone_high_gpu_seconds: Mapped[float]
