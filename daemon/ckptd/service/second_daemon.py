"""Refuses a second daemon where the database or the site allows no standby, and names the first."""

from collections.abc import Callable
from contextlib import suppress

from ckptd.core.leadership import lease
from ckptd.service.lease_keeper import LeaseHeldError, LeaseKeeper
from ckptd.store.database_errors import StoreError

MAX_TRIES = 4  # of the lease, in which its holder renews it


def refuse(keeper: LeaseKeeper, standby: str) -> None:
    """Refuse a daemon that may not wait, as of the last try of the lease. `standby` is the setting of this name.

    Raises:
        LeaseHeldError: another daemon acts for the cluster.

    """
    is_daemon = keeper.rival is not None and keeper.rival.program == lease.RUN
    if (keeper.is_exclusive or standby == "refuse") and keeper.is_rival_alive and is_daemon:
        raise LeaseHeldError(keeper.describe_refusal())


def find_and_refuse(keeper: LeaseKeeper, standby: str, wait: Callable[[float], bool]) -> None:
    """Try the lease for a few seconds, without keeping it, to refuse a second daemon; `wait` is true on a stop.

    Raises:
        LeaseHeldError: another daemon acts for the cluster.

    """
    for _ in range(MAX_TRIES if keeper.is_exclusive or standby == "refuse" else 0):
        with suppress(StoreError):
            if (term := keeper.try_take()) is not None:
                keeper.release(term)
                return
        refuse(keeper, standby)
        if wait(keeper.times.watch_interval):
            return
