"""The table of the directories that clusters declare to share."""

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from ckptd.store.table_base import Base, primary_key


class SharedDirectoryTable(Base):
    """One directory that the configuration of a cluster's daemon declares to share with another cluster.

    It is shared only if the other cluster has a row that says the same.
    """

    __tablename__ = "shared_directories"
    __table_args__ = (sa.Index(None, "cluster"),)

    id: Mapped[int] = primary_key()
    cluster: Mapped[str] = mapped_column(sa.ForeignKey("clusters.name"))
    other_cluster: Mapped[str]
    directory: Mapped[str]
