"""Status of each cluster: its last successful poll, the error since then, and its daemon."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import Unknown
from ckptd.core.model.records import NO_NODE_SCANS, DaemonIdentity, NodeScanCost
from ckptd.core.queue.poll_gaps import PollGap
from ckptd.core.runs import ownership
from ckptd.store import runs
from ckptd.store.listing_readers import ClusterReader
from ckptd.store.tables import ClusterTable
from ckptd.store.transactions import StorePart, writing


class ClusterStore(StorePart, ClusterReader):
    """Status of each cluster."""

    @writing
    def record_poll(
        self,
        connection: sa.Connection,
        cluster: str,
        at: datetime,
        unknown: Unknown | None = None,
        gap: PollGap | None = None,
        *,
        has_mentions: bool = False,
    ) -> None:
        """Record a successful poll, or why it failed; a failure does not change the time of the last successful poll.

        A successful poll also records the time range that is still to be backfilled from accounting, if there is one,
        and whether the paths that jobs name are recorded.
        """
        runs.ensure_cluster(connection, cluster)
        if unknown is None:
            before, since = connection.execute(runs.POLLS, {"cluster": cluster}).one()
            values: dict[str, Any] = {
                "polled_since": since if since and ownership.is_poll_continued(before, at) else at,
                "polled_at": at,
                "poll_failed_at": None,
                "unknown_what": None,
                "unknown_reason": None,
            }
            if has_mentions:
                values["mentions_at"] = at
            if gap is not None:
                values |= {"backfill_since": gap.since, "backfill_until": gap.until}
        else:
            failed_at = sa.func.coalesce(
                ClusterTable.poll_failed_at,
                sa.bindparam("failed_at", at, unique=True, type_=ClusterTable.poll_failed_at.type),
            )
            values = {"poll_failed_at": failed_at, "unknown_what": unknown.what, "unknown_reason": unknown.reason}
        connection.execute(sa.update(ClusterTable).where(ClusterTable.name == cluster).values(**values))

    @writing
    def record_heartbeat(
        self,
        connection: sa.Connection,
        cluster: str,
        daemon: DaemonIdentity,
        at: datetime,
        node_scans: NodeScanCost = NO_NODE_SCANS,
    ) -> None:
        """Record that a daemon is running for this cluster, and what its steps in users' jobs have cost."""
        runs.ensure_cluster(connection, cluster)
        connection.execute(
            sa.update(ClusterTable)
            .where(ClusterTable.name == cluster)
            .values(
                heartbeat_at=at,
                daemon_host=daemon.host,
                daemon_pid=daemon.pid,
                daemon_version=daemon.version,
                daemon_started_at=daemon.started_at,
                node_scan_count=node_scans.step_count,
                node_scan_seconds=node_scans.seconds,
            )
        )
