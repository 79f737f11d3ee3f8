"""Leases: which process acts for a cluster. Every change of the holder raises the lease's epoch, the fencing token."""

import zlib
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from ckptd.core.leadership.lease import Lease, LeaseHolder
from ckptd.store.continuity import Continuity
from ckptd.store.database_errors import LeaseLostError
from ckptd.store.lease_tables import LeaseTable, StandbyTable
from ckptd.store.runs import ensure_cluster
from ckptd.store.transactions import StorePart, reading, writing

FREE = Lease(epoch=0, renewal=0, holder=None)  # of a cluster for which no process has acted yet
FORGOTTEN_AFTER = timedelta(days=1)  # since a standby was last seen

# PostgreSQL allows that for sessions of one's own role; pg_locks has the two keys of an advisory lock in these columns
TERMINATE = """
    SELECT pg_terminate_backend(l.pid)
    FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid AND a.usename = current_user
    WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = :class_id AND l.objid = :object_id
      AND a.datname = current_database()
      AND EXISTS (SELECT 1 FROM leases WHERE cluster = :cluster AND epoch = :epoch AND renewal = :renewal)
"""


class LeaseStore(StorePart):
    """Leases, and the daemons that wait for one."""

    @reading
    def read(self, connection: sa.Connection, cluster: str) -> Lease:
        """Return a cluster's lease; a free one of epoch 0 if no process has acted for the cluster yet."""
        row = connection.execute(sa.select(LeaseTable).where(LeaseTable.cluster == cluster)).first()
        return FREE if row is None else _lease(row)

    @reading
    def list_clusters(self, connection: sa.Connection) -> tuple[str, ...]:
        """Return the clusters for which a process has acted."""
        return tuple(connection.scalars(sa.select(LeaseTable.cluster).order_by(LeaseTable.cluster)))

    @writing
    def take(
        self,
        connection: sa.Connection,
        cluster: str,
        seen: Lease,
        holder: LeaseHolder,
        now: datetime,
        continuity: Continuity | None = None,
    ) -> int | None:
        """Take the lease if it is still as it was seen; return the new epoch, or None if it has changed.

        `continuity` then remembers this database, for later writes and renewals.

        This waits until the transactions of the previous holder have ended, because each of them locks the lease's key.
        A holder that has not released the lease may never end them: its sessions are terminated.
        """
        if seen.holder is not None and connection.dialect.name == "postgresql":
            # before anything else: all of it would wait for them
            _terminate_sessions(connection, cluster, seen)
        _ensure(connection, cluster)
        ensure_cluster(connection, cluster)  # before the steps, of which several at once would insert it
        of_cluster = LeaseTable.cluster == cluster
        found = connection.execute(
            sa.select(LeaseTable.epoch, LeaseTable.renewal).where(of_cluster).with_for_update()
        ).one()
        if tuple(found) != (seen.epoch, seen.renewal):
            return None
        epoch = seen.epoch + 1
        connection.execute(
            sa.update(LeaseTable)
            .where(of_cluster)
            .values(
                epoch=epoch,
                renewal=seen.renewal + 1,
                instance=holder.instance,
                program=holder.program,
                host=holder.host,
                pid=holder.pid,
                version=holder.version,
                acquired_at=now,
                renewed_at=now,
            )
        )
        connection.execute(sa.delete(StandbyTable).where(StandbyTable.instance == holder.instance))
        if continuity is not None:
            continuity.begin(connection, cluster)
        return epoch

    @writing
    def renew(
        self, connection: sa.Connection, cluster: str, epoch: int, now: datetime, continuity: Continuity | None = None
    ) -> bool:
        """Renew the lease; return whether this epoch is still the current one.

        Raises:
            DatabaseReplacedError: by `continuity`, this is another database.

        """
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(_mark_session(cluster, epoch)))
        if continuity is not None and continuity.columns:
            least = continuity.expect()
            found = connection.execute(sa.select(*continuity.columns).where(LeaseTable.cluster == cluster)).first()
            continuity.compare((None, 0) if found is None else tuple(found), least)
        done = connection.execute(
            sa.update(LeaseTable)
            .where(LeaseTable.cluster == cluster, LeaseTable.epoch == epoch, LeaseTable.instance.is_not(None))
            .values(renewal=LeaseTable.renewal + 1, renewed_at=now)
        )
        return done.rowcount == 1

    @writing
    def release(self, connection: sa.Connection, cluster: str, epoch: int, instance: str) -> None:
        """Free the lease, so that another process may take it at once; do nothing if another one has it.

        After a restore of an older state, another one may have it under the same epoch.
        """
        nobody = dict.fromkeys(("instance", "program", "host", "pid", "version"))
        connection.execute(
            sa.update(LeaseTable)
            .where(LeaseTable.cluster == cluster, LeaseTable.epoch == epoch, LeaseTable.instance == instance)
            .values(renewal=LeaseTable.renewal + 1, **nobody)
        )

    @writing
    def record_standby(self, connection: sa.Connection, cluster: str, standby: LeaseHolder, now: datetime) -> None:
        """Record that a daemon waits for the lease; forget those that were not seen for a day."""
        connection.execute(
            sa.delete(StandbyTable).where(
                (StandbyTable.instance == standby.instance) | (StandbyTable.seen_at < now - FORGOTTEN_AFTER)
            )
        )
        connection.execute(
            sa.insert(StandbyTable).values(
                instance=standby.instance,
                cluster=cluster,
                program=standby.program,
                host=standby.host,
                pid=standby.pid,
                version=standby.version,
                seen_at=now,
            )
        )

    @writing
    def forget_standby(self, connection: sa.Connection, standby: LeaseHolder) -> None:
        """Record that a daemon no longer waits."""
        connection.execute(sa.delete(StandbyTable).where(StandbyTable.instance == standby.instance))


def check_epoch(connection: sa.Connection, cluster: str, epoch: int, continuity: Continuity | None = None) -> None:
    """Lock the key of a lease in this transaction, so that nobody takes the lease before its end.

    A renewal does not wait for this lock. A holder that stops in the middle of the transaction would keep the lock, so
    whoever takes the lease terminates the session.

    Raises:
        LeaseLostError: the epoch is not the current one.
        DatabaseReplacedError: by `continuity`, this is another database.

    """
    compared = () if continuity is None else continuity.columns
    least = 0 if continuity is None else continuity.expect()
    columns: list[Any] = [*compared, LeaseTable.epoch]
    if connection.dialect.name == "postgresql":
        columns.append(_mark_session(cluster, epoch))
    found = connection.execute(
        sa.select(*columns)
        .where(LeaseTable.cluster == cluster, LeaseTable.epoch == epoch, LeaseTable.instance.is_not(None))
        .with_for_update(read=True, key_share=True)
    ).first()
    if found is None:
        raise LeaseLostError(_describe_loss(connection, cluster))
    if continuity is not None and compared:
        continuity.compare((found[0], found[1]), least)


def _mark_session(cluster: str, epoch: int) -> sa.Function[Any]:
    """Return the expression that shows in pg_locks, for this transaction, under which epoch its session writes.

    It takes a shared advisory lock, for which nobody waits.
    """
    return sa.func.pg_advisory_xact_lock_shared(*_lock_keys(cluster, epoch))


def _terminate_sessions(connection: sa.Connection, cluster: str, seen: Lease) -> None:
    """Terminate every session that writes under a lease, unless the lease was renewed since it was seen.

    PostgreSQL's limit on an idle transaction does not do that: it starts with ReadyForQuery and stops with any message.
    psycopg's executemany() sends Sync and Flush at once, so that a client that stops after it is waited for for ever.
    """
    class_id, object_id = _lock_keys(cluster, seen.epoch)
    values = {"cluster": cluster, "epoch": seen.epoch, "renewal": seen.renewal}
    connection.execute(sa.text(TERMINATE), {**values, "class_id": class_id, "object_id": object_id})


def _lock_keys(cluster: str, epoch: int) -> tuple[int, int]:
    """Return the keys of the advisory lock of an epoch; clusters that share one terminate each other's sessions."""
    return zlib.crc32(cluster.encode()) % 2**31, epoch % 2**31


def _describe_loss(connection: sa.Connection, cluster: str) -> str:
    row = connection.execute(sa.select(LeaseTable).where(LeaseTable.cluster == cluster)).first()
    holder = None if row is None else _lease(row).holder
    return f"another process acts for the cluster {cluster} now: {holder}" if holder else "its lease was released"


def _ensure(connection: sa.Connection, cluster: str) -> None:
    values = {"cluster": cluster, "epoch": FREE.epoch, "renewal": FREE.renewal}
    if connection.dialect.name == "postgresql":
        connection.execute(postgresql.insert(LeaseTable).values(**values).on_conflict_do_nothing())
    else:
        connection.execute(sqlite.insert(LeaseTable).values(**values).on_conflict_do_nothing())


def _lease(row: sa.Row[Any]) -> Lease:
    values = row._mapping  # noqa: SLF001 - SQLAlchemy's public name for it
    holder = None
    if values["instance"] is not None:
        holder = LeaseHolder(**{name: values[name] for name in ("instance", "program", "host", "pid", "version")})
    return Lease(
        epoch=values["epoch"],
        renewal=values["renewal"],
        holder=holder,
        acquired_at=values["acquired_at"],
        renewed_at=values["renewed_at"],
    )
