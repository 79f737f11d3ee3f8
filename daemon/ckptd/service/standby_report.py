"""Says in the log and to systemd whom a standby waits for, and whether it can read the lease."""

import logging

from ckptd.service.outage import Outage
from ckptd.service.systemd import Systemd
from ckptd.store.database_errors import StoreError

log = logging.getLogger("ckptd")


class StandbyReport:
    """What was said so far, so that nothing is said again."""

    def __init__(self, systemd: Systemd, cluster: str) -> None:
        self._systemd = systemd
        self._cluster = cluster
        self._outage = Outage()
        self._rival = ""  # the process that acts
        self._status = ""

    def note_rival(self, rival: str) -> None:
        """Say that another process acts."""
        if rival != self._rival:
            log.warning("standby: %s acts for the cluster %s", rival, self._cluster)
            self._rival = rival
        if self._outage.note_success() is not None:
            log.warning("standby: the lease can be read again")
        self._show(f"standby of {rival}")

    def note_trouble(self, error: StoreError) -> None:
        """Say that the lease cannot be read."""
        if self._outage.note_failure():
            log.warning("standby: the lease cannot be read: %s", error)
        self._show(f"standby; the lease cannot be read: {error}")

    def note_takeover(self) -> None:
        """Say that this process acts from now on, if it waited."""
        if self._rival:
            log.warning("standby: taking over the cluster %s from %s", self._cluster, self._rival)

    def _show(self, status: str) -> None:
        if status != self._status:
            self._systemd.ready(status)
            self._status = status
