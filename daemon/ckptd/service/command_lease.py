"""How commands act beside a daemon: under its lease, or under one of their own where nobody has it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ckptd.service.database_lock import DatabaseLockDeniedError
from ckptd.service.lease_keeper import LeaseHeldError, LeaseKeeper
from ckptd.service.lease_term import LeaseTerm
from ckptd.store.store import Store


@contextmanager
def join_or_take_lease(store: Store, cluster: str, program: str) -> Iterator[Store]:
    """Yield the database for a command that a person gives, such as a restore from the trash.

    It writes under the epoch of the daemon that acts. If another one takes over meanwhile, the command fails, and the
    new one recovers what was begun. Where nobody acts, it takes the lease, and a daemon that starts waits for it.
    """
    keeper = LeaseKeeper(store, cluster, program)
    try:
        term = keeper.try_take()
    except DatabaseLockDeniedError:  # a user who may write to the database, but not act for the cluster
        term = None
    if term is None:
        current = store.leases.read(cluster)
        yield store.with_lease(cluster, current.epoch) if current.holder else store
        return
    with _holding(keeper, term):
        yield store.with_lease(cluster, term.epoch)


@contextmanager
def take_lease(keeper: LeaseKeeper) -> Iterator[LeaseTerm]:
    """Hold the lease for a command that does what the daemon does; wait only for one whose holder is gone.

    Raises:
        LeaseHeldError: another process acts for the cluster.

    """
    while (term := keeper.try_take()) is None:
        if keeper.is_rival_alive:
            raise LeaseHeldError(
                f"{keeper.describe_rival()} acts for the cluster {keeper.cluster}: `ckptd status` shows its state; "
                f"to run `ckptd {keeper.holder.program}`, stop it first"
            )
        time.sleep(keeper.times.watch_interval)
    with _holding(keeper, term):
        yield term


@contextmanager
def _holding(keeper: LeaseKeeper, term: LeaseTerm) -> Iterator[None]:
    keeper.keep(term)
    try:
        yield
    finally:
        keeper.release(term)
