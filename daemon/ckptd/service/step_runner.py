"""Runs the daemon's steps: logs their results, measures their durations, and reports each failure once."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from ckptd.checkpoints.agent.client import AgentGoneError
from ckptd.errors import CkptdError
from ckptd.metrics.collector import ReportCollector
from ckptd.service.log_output import current_step
from ckptd.service.outage import CALM_SECONDS, Outage
from ckptd.service.step_table import STEPS
from ckptd.service.systemd import Systemd
from ckptd.steps.results import LogLine, StepResult
from ckptd.store.database_errors import DatabaseAwayError, StoreError

log = logging.getLogger("ckptd")
SECONDS_TO_FORGET = 600.0  # a step that failed must do work before it counts as working, or rest for this time


class StepRunner:
    """Runs steps, called from several threads at once."""

    def __init__(
        self,
        collector: ReportCollector,
        systemd: Systemd,
        record_success: Callable[[str], None] = lambda _name: None,
        *,
        clock: Callable[[], float] = time.monotonic,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._collector = collector
        self._systemd = systemd
        self._record_success = record_success
        self._is_stopping = is_stopping
        self._lock = threading.Lock()
        self._clock = clock
        self._failed_at: dict[str, float] = {}  # the last failure of each step that has not recovered
        self._troubles: dict[str, str] = {}  # error of each failing step, by its name
        self._outage = Outage(clock)  # of the database, for all steps
        self._unrecorded: set[str] = set()  # steps whose last transaction failed during the outage

    def run(self, name: str, step: Callable[[datetime], StepResult]) -> None:
        """Run one step; an error is logged and does not stop the others."""
        token = current_step.set(name)
        try:
            self._run(name, step)
        finally:
            current_step.reset(token)

    def _run(self, name: str, step: Callable[[datetime], StepResult]) -> None:
        began = time.monotonic()
        try:
            result = step(datetime.now(UTC))
        except CkptdError as error:
            if not (isinstance(error, AgentGoneError) and self._is_stopping()):  # a stop ends the agent amid a scan
                self._log_trouble(name, error)
            return
        except Exception:  # the unit of work is one step of one cycle
            log.exception("step %s failed", name)
            self._count_failure(name)
            return
        write_lines(result.lines)
        if result.has_failed:
            self._collector.count_failure(name)
        if self._has_recovered(name, result):
            self._record_success(name)
        if result.found_work:
            if _is_recording(name):
                self._note_answer(name)
                self._collector.record_database_step(name, is_up=True)
            self._collector.observe_step(name, timedelta(seconds=time.monotonic() - began))

    def _count_failure(self, name: str) -> None:
        self._collector.count_failure(name)
        with self._lock:
            self._failed_at[name] = self._clock()

    def _has_recovered(self, name: str, result: StepResult) -> bool:
        """Return whether a step works: one without work since its failure would fail again."""
        with self._lock:
            failed_at = self._failed_at.get(name)
            if failed_at is None:
                return True
            if not result.found_work and self._clock() - failed_at < SECONDS_TO_FORGET:
                return False
            del self._failed_at[name]
            if self._troubles.pop(name, None):
                how = "succeeded again" if result.found_work else f"has not failed for {SECONDS_TO_FORGET / 60:.0f} min"
                log.warning("step %s %s", name, how)
            return True

    def _log_trouble(self, name: str, error: CkptdError) -> None:
        """Log why a step failed, once for as long as it fails for the same reason; its next run tries again."""
        if isinstance(error, StoreError):
            self._systemd.status(str(error))
            if _is_recording(name):
                self._collector.record_database_step(name, is_up=False)
        if isinstance(error, DatabaseAwayError):  # steps that always do work end the outage, for all others
            self._collector.count_failure(name)
            self._note_outage(name, error)
            return
        self._count_failure(name)
        with self._lock:
            if self._troubles.get(name) != str(error):
                log.error("step %s failed: %s", name, error)
            self._troubles[name] = str(error)

    @property
    def is_database_away(self) -> bool:
        """Whether the database failed recently."""
        return self._outage.is_on

    def _note_outage(self, name: str, error: CkptdError) -> None:
        """Log that the database fails, once for all steps and reasons until it has worked for a while."""
        with self._lock:
            if _is_recording(name):
                self._unrecorded.add(name)
            if self._outage.note_failure():
                log.error("%s; nothing is recorded until it answers", error)

    def _note_answer(self, name: str) -> None:
        """End the outage once every step has recorded again: on a full disk, steps that only read still succeed."""
        with self._lock:
            self._unrecorded.discard(name)
            if not self._unrecorded and (seconds := self._outage.note_success()) is not None:
                log.warning("the database has answered for %.0f s again, after %.0f s", CALM_SECONDS, seconds)


def _is_recording(name: str) -> bool:
    return name in STEPS and STEPS[name].is_recording


def write_lines(lines: Iterable[LogLine]) -> None:
    """Write the log lines of a step."""
    for line in lines:
        log.log(line.level, "%s", line.text, exc_info=line.error, extra={"fields": line.fields})
