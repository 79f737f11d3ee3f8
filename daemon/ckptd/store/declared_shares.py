"""Directories that clusters declare to share: each daemon records what its own configuration says."""

from collections.abc import Collection
from datetime import UTC, datetime

import sqlalchemy as sa

from ckptd.core.runs.shared_files import SharedDirectory
from ckptd.store import runs, shared_rows
from ckptd.store.plain_reads import Select
from ckptd.store.read_parts import selecting
from ckptd.store.shared_tables import SharedDirectoryTable
from ckptd.store.tables import ClusterTable
from ckptd.store.transactions import StorePart, writing


class DeclaredShareStore(StorePart):
    """Directories that clusters declare to share."""

    @selecting
    def read_declared(self, select: Select) -> tuple[SharedDirectory, ...]:
        """Return what all clusters declare, in effect or not, by directory."""
        return shared_rows.read_declared(select)

    def record(self, cluster: str, declared: Collection[SharedDirectory]) -> None:
        """Record what a cluster declares now, instead of what it declared before."""
        if {each for each in self.read_declared() if each.cluster == cluster} != set(declared):
            self._replace(cluster, declared)

    @writing
    def record_clock(self, connection: sa.Connection, cluster: str, at: datetime) -> None:
        """Record what the clock of a cluster's Slurm just showed, as its difference from that of the database."""
        now = datetime.now(UTC)  # SQLite has the clock of this host
        if connection.dialect.name == "postgresql":
            now = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        statement = sa.update(ClusterTable).where(ClusterTable.name == cluster)
        connection.execute(statement.values(clock_ahead=at - now))

    @writing
    def _replace(self, connection: sa.Connection, cluster: str, declared: Collection[SharedDirectory]) -> None:
        runs.ensure_cluster(connection, cluster)
        connection.execute(sa.delete(SharedDirectoryTable).where(SharedDirectoryTable.cluster == cluster))
        if declared:
            connection.execute(sa.insert(SharedDirectoryTable), [each._asdict() for each in declared])
