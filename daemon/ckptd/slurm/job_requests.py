"""Limits the requests to Slurm about single jobs, and sends one for all tasks of an array.

The queue does not contain batch scripts and MailUser: each needs a separate request to slurmctld. If Slurm's own rate
limiter (`rl_enable`) is on, it allows an account 30 requests at once and two a second by default; ckptd stays within
that. Further requests are deferred: the caller retries later, and must not take the deferral for an answer.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, TypeVar

from ckptd.core.model import Job, Unknown
from ckptd.slurm import failure_reasons
from ckptd.slurm.failure_reasons import FailureReason

Answer = TypeVar("Answer")
AT_ONCE = 30
PER_SECOND = 2.0
MAX_DEBT = 120  # urgent requests that may precede their time
KEPT_SECONDS = 3600.0
KEPT_SCRIPTS = 500
KEPT_LETTERS = 64 * 1024  # of one script; longer ones are read again


class _KeptScript(NamedTuple):
    text: str
    read_at: float
    submitted_at: datetime | None  # of the job that it was read of

    def is_of(self, job: Job) -> bool:
        """Whether it is still this job's: ids are reused after Slurm has lost its state.

        All tasks of an array have one submission time. A requeue resets it, but does not change the script.
        """
        return job.restart_count > 0 or job.submitted_at == self.submitted_at


class JobRequests:
    """The requests about single jobs of one source. Used by several threads."""

    def __init__(self, read_seconds: Callable[[], float] = time.monotonic) -> None:
        self._read_seconds = read_seconds
        self._lock = threading.Lock()
        self._available = float(AT_ONCE)
        self._filled_at: float | None = None  # the first request
        self._scripts: OrderedDict[tuple[int, int], _KeptScript] = OrderedDict()

    def read_script(self, job: Job, read: Callable[[], str | Unknown], *, is_urgent: bool) -> str | Unknown:
        """Return the script of a job or of its array, read within the last hour or now."""
        key = (job.uid, job.array_job_id or job.job_id)
        with self._lock:
            kept = self._scripts.get(key)
        if kept is not None and kept.is_of(job) and self._read_seconds() - kept.read_at < KEPT_SECONDS:
            return kept.text
        answer = self.ask("batch script", read, is_urgent=is_urgent)
        if isinstance(answer, str) and len(answer) <= KEPT_LETTERS:
            with self._lock:
                self._scripts[key] = _KeptScript(answer, self._read_seconds(), job.submitted_at)
                self._scripts.move_to_end(key)
                while len(self._scripts) > KEPT_SCRIPTS:
                    self._scripts.popitem(last=False)
        return answer

    def ask(self, what: str, read: Callable[[], Answer], *, is_urgent: bool = False) -> Answer | Unknown:
        """Send one request, unless too many were sent; urgent ones may be sent ahead of time, and delay the others."""
        if not self._take(is_urgent=is_urgent):
            detail = f"ckptd asks Slurm about at most {PER_SECOND:g} single jobs a second"
            return failure_reasons.make_unknown(what, FailureReason.DEFERRED, detail)
        return read()

    def _take(self, *, is_urgent: bool) -> bool:
        with self._lock:
            now = self._read_seconds()
            passed = 0.0 if self._filled_at is None else now - self._filled_at
            self._available = min(AT_ONCE, self._available + passed * PER_SECOND)
            self._filled_at = now
            if self._available < (1 - MAX_DEBT if is_urgent else 1):
                return False
            self._available -= 1
            return True
