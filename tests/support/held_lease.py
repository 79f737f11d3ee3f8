"""The lease of a daemon that acts for a cluster, in the database alone."""

from datetime import UTC, datetime

from ckptd.core.leadership.lease import RUN
from ckptd.service.lease_keeper import LeaseKeeper


def hold_lease(store, cluster, program=RUN):
    """Record that a process of this program holds the lease; return its epoch."""
    holder = LeaseKeeper(store, cluster, program).holder
    return store.leases.take(cluster, store.leases.read(cluster), holder, datetime.now(UTC))
