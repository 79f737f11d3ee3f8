"""Takes, renews and releases the lease of a cluster for this process.

On PostgreSQL the holder renews the lease, and another process takes it when it was not renewed for its duration. On
SQLite, which one host uses, a file lock takes the place of renewals: the kernel ends it with its process.
"""

import logging
import os
import secrets
import socket
import threading
from datetime import UTC, datetime
from importlib.metadata import version

from ckptd.checkpoints.agent.lease_memory import read_elapsed
from ckptd.core.leadership import lease
from ckptd.core.leadership.lease import LeaseHolder, LeaseTimes, LeaseWatch
from ckptd.errors import CkptdError
from ckptd.service.database_file import DatabaseFile
from ckptd.service.database_lock import DatabaseLock
from ckptd.service.lease_term import LeaseTerm
from ckptd.service.outage import Outage
from ckptd.store.continuity import Continuity
from ckptd.store.database_errors import DatabaseReplacedError, StoreError
from ckptd.store.store import Store

RETRY_SECONDS = 1.0  # after a renewal that the database did not answer
TIMES = LeaseTimes()
STANDBY_SECONDS = 10.0  # between two notes that this process waits

log = logging.getLogger("ckptd")


class LeaseHeldError(CkptdError):
    """Another process acts for the cluster; the text names it and says what to do."""


class LeaseKeeper:
    """The lease of one cluster, as this process sees it."""

    def __init__(self, store: Store, cluster: str, program: str, times: LeaseTimes = TIMES) -> None:
        """`store` must be one that no step uses, so that a renewal never waits for a connection."""
        self.times = times
        self.cluster = cluster
        self.holder = LeaseHolder(
            instance=secrets.token_hex(16),
            program=program,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version("ckptd"),
        )
        path = store.database.sqlite_path
        self._store = store
        self._lock = None if path is None else DatabaseLock(path, cluster)
        self._watched: LeaseWatch | None = None
        self._first_seen: tuple[int, int] | None = None
        self._try_count = 0
        self._noted_at: float | None = None

    @property
    def is_exclusive(self) -> bool:
        """Whether the database allows no standby."""
        return self._lock is not None

    @property
    def rival(self) -> LeaseHolder | None:
        """Return the process that held the lease at the last try; None: nobody, or it is not known yet."""
        return self._watched.lease.holder if self._watched else None

    @property
    def is_rival_alive(self) -> bool:
        """Whether the other process has the lock, or renewed the lease while this one waited.

        At the first try the lock may be younger than what is on record of its holder.
        """
        if self._watched is None or self.rival is None or self._try_count < 2:
            return False
        seen = (self._watched.lease.epoch, self._watched.lease.renewal)
        return self.is_exclusive or seen != self._first_seen

    def describe_rival(self) -> str:
        """Return who acts for the cluster, and since when."""
        if self._watched is None or self.rival is None:
            return "another process"
        since = self._watched.lease.acquired_at
        return f"{self.rival}" + (f" since {since:%Y-%m-%d %H:%M:%S} UTC" if since else "")

    def describe_refusal(self) -> str:
        """Return why this process does not act, and what to do."""
        remedy = (
            "stop that one first, or move to PostgreSQL, where a second daemon waits as a standby"
            if self.is_exclusive
            else 'stop that one first, or set service.standby = "auto" to wait as its standby'
        )
        return f"the cluster {self.cluster} has a daemon already: {self.describe_rival()}; {remedy}"

    def try_take(self) -> LeaseTerm | None:
        """Take the lease if it is free; None if not.

        Raises:
            StoreError: the database does not answer.

        """
        self._try_count += 1
        is_locked = self._lock is not None and self._lock.acquire()
        seen = self._store.leases.read(self.cluster)
        self._watched = lease.watch(self._watched, seen, read_elapsed())
        self._first_seen = self._first_seen or (seen.epoch, seen.renewal)
        if self._lock is not None and not is_locked:
            return None
        if self._lock is None and not lease.may_take(self._watched, read_elapsed(), self.times):
            return None
        began = read_elapsed()
        continuity = Continuity()
        epoch = self._store.leases.take(self.cluster, seen, self.holder, datetime.now(UTC), continuity)
        if epoch is None:
            return None
        until = float("inf") if self._lock is not None else lease.valid_until(began, self.times)
        return LeaseTerm(self.cluster, epoch, until, DatabaseFile(self._store.database.sqlite_path), continuity)

    def record_standby(self) -> None:
        """Record every few seconds that this process waits."""
        now = read_elapsed()
        if self._noted_at is None or now - self._noted_at >= STANDBY_SECONDS:
            self._store.leases.record_standby(self.cluster, self.holder, datetime.now(UTC))
            self._noted_at = now

    def forget_standby(self) -> None:
        """Record that this process no longer waits, if the database answers."""
        try:
            self._store.leases.forget_standby(self.holder)
        except StoreError as error:
            log.warning("the standby stays on record for a while: %s", error)

    def keep(self, term: LeaseTerm) -> None:
        """Renew the lease on a thread of its own until the term ends."""
        if self._lock is None:
            threading.Thread(target=self._renew_until_end, args=(term,), name="lease", daemon=True).start()

    def release(self, term: LeaseTerm) -> None:
        """End the term, and free the lease for another process; without the database, it expires by itself."""
        term.end()
        try:
            self._store.leases.release(self.cluster, term.epoch, self.holder.instance)
        except StoreError as error:
            log.warning("the lease could not be released, and expires by itself: %s", error)
        if self._lock is not None:
            self._lock.release()

    def _renew_until_end(self, term: LeaseTerm) -> None:
        wait, outage = self.times.renew_interval, Outage()
        while not term.has_ended.wait(wait):
            began = read_elapsed()
            try:
                with term.renewing():
                    is_ours = self._store.leases.renew(self.cluster, term.epoch, datetime.now(UTC), term.continuity)
            except DatabaseReplacedError as error:
                term.lose(f"{error}; stopping the daemon, because only a restart reads again what it holds")
                return
            except StoreError as error:
                if outage.note_failure():
                    log.warning("the lease of the cluster %s could not be renewed: %s", self.cluster, error)
                wait = RETRY_SECONDS
                continue
            if not is_ours:
                term.lose(f"another daemon acts for the cluster {self.cluster} now; stopping, to wait as its standby")
                return
            term.extend(lease.valid_until(began, self.times))
            if outage.note_success() is not None:
                log.warning("the lease of the cluster %s is renewed again", self.cluster)
            wait = self.times.renew_interval
