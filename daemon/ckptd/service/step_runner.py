"""Runs the daemon's steps: what one of them took, and its trouble, which is told once and stops no other."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ckptd.errors import CkptdError
from ckptd.metrics.collector import ReportCollector
from ckptd.service.systemd import Systemd
from ckptd.store.errors import StoreError

STORING_STEPS = frozenset({"poll", "publish", "housekeeping"})  # that end well only where the database answers

Step = Callable[[datetime], bool | None]  # is told the time; returns False where it found nothing to do

log = logging.getLogger("ckptd")


class Stepper:
    """Runs steps, from several threads at once."""

    def __init__(self, collector: ReportCollector, systemd: Systemd) -> None:
        self._collector = collector
        self._systemd = systemd
        self._troubles: dict[str, str] = {}  # of steps that fail, by their name

    def run(self, name: str, step: Step) -> None:
        """Run one step; its trouble is told and the next one goes on."""
        began = time.monotonic()
        try:
            is_news = step(datetime.now(UTC)) is not False
        except CkptdError as error:
            self._tell_trouble(name, error)
            return
        except Exception:  # the unit of work is one step of one cycle
            log.exception("step %s failed", name)
            self._collector.count_failure(name)
            return
        if self._troubles.pop(name, None):
            log.warning("step %s succeeded again", name)
        if name in STORING_STEPS:
            self._collector.note_database(name, is_up=True)
        if is_news:
            self._collector.observe_step(name, timedelta(seconds=time.monotonic() - began))

    def _tell_trouble(self, name: str, error: CkptdError) -> None:
        """Say once why a step failed, however often it fails so; what could not be recorded is tried again."""
        if isinstance(error, StoreError):
            self._systemd.status(str(error))
            if name in STORING_STEPS:
                self._collector.note_database(name, is_up=False)
        self._collector.count_failure(name)
        if self._troubles.get(name) != str(error):
            log.error("step %s failed: %s", name, error)
        self._troubles[name] = str(error)
