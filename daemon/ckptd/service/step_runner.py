"""Runs the daemon's steps: logs their results, measures their durations, and reports each failure once."""

import logging
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from ckptd.errors import CkptdError
from ckptd.metrics.collector import ReportCollector
from ckptd.service.step_table import STEPS
from ckptd.service.systemd import Systemd
from ckptd.steps.results import LogLine, StepResult
from ckptd.store.database_errors import StoreError

log = logging.getLogger("ckptd")


class StepRunner:
    """Runs steps, called from several threads at once."""

    def __init__(
        self, collector: ReportCollector, systemd: Systemd, record_success: Callable[[str], None] = lambda _name: None
    ) -> None:
        self._collector = collector
        self._systemd = systemd
        self._record_success = record_success
        self._troubles: dict[str, str] = {}  # error of each failing step, by its name

    def run(self, name: str, step: Callable[[datetime], StepResult]) -> None:
        """Run one step; an error is logged and does not stop the others."""
        began = time.monotonic()
        try:
            result = step(datetime.now(UTC))
        except CkptdError as error:
            self._log_trouble(name, error)
            return
        except Exception:  # the unit of work is one step of one cycle
            log.exception("step %s failed", name)
            self._collector.count_failure(name)
            return
        self._record_success(name)
        write_lines(result.lines)
        if result.has_failed:
            self._collector.count_failure(name)
        if self._troubles.pop(name, None):
            log.warning("step %s succeeded again", name)
        if result.found_work:
            if _is_recording(name):
                self._collector.record_database_step(name, is_up=True)
            self._collector.observe_step(name, timedelta(seconds=time.monotonic() - began))

    def _log_trouble(self, name: str, error: CkptdError) -> None:
        """Log why a step failed, once for as long as it fails for the same reason; its next run tries again."""
        if isinstance(error, StoreError):
            self._systemd.status(str(error))
            if _is_recording(name):
                self._collector.record_database_step(name, is_up=False)
        self._collector.count_failure(name)
        if self._troubles.get(name) != str(error):
            log.error("step %s failed: %s", name, error)
        self._troubles[name] = str(error)


def _is_recording(name: str) -> bool:
    return name in STEPS and STEPS[name].is_recording


def write_lines(lines: Iterable[LogLine]) -> None:
    """Write the log lines of a step."""
    for line in lines:
        log.log(line.level, "%s", line.text, exc_info=line.error)
