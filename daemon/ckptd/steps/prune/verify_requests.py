"""Lets jobs of the owners verify the newest checkpoints of runs that shall be pruned, where the site has such jobs.

Nothing waits for them: their results are recorded by the step that follows verification jobs, and until then the run is
not pruned.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from ckptd.checkpoints.executor import SkippedRequest, VerificationRequest, VerifyPlace
from ckptd.core.model import RecordedCheckpoint, RunKey, Unknown
from ckptd.steps.parts import Parts

log = logging.getLogger("ckptd.steps.prune")


@dataclass(slots=True)
class RequestedVerifications:
    """The requests of one step."""

    parts: Parts
    skipped: list[RunKey] = field(default_factory=list)  # runs to try again later
    _open: frozenset[RunKey] | None = None

    def submit(self, run: RunKey, todo: Collection[RecordedCheckpoint], now: datetime) -> bool:
        """Request a verification unless one is open; return False if this node is to carry it out."""
        executor, place = self.parts.job_executor, self.parts.verify_place
        if executor is None or place is VerifyPlace.HERE:
            return False
        if self._open is None:
            self._open = self.parts.store.verification_tickets.list_runs(self.parts.cluster)
        if run in self._open:
            return True
        ticket = executor.submit(VerificationRequest(run, tuple(each.checkpoint for each in todo), now))
        if isinstance(ticket, SkippedRequest) and place is VerifyPlace.JOBS_OR_HERE:
            return False
        if isinstance(ticket, SkippedRequest | Unknown):
            reason = ticket.reason if isinstance(ticket, Unknown) else str(ticket)
            log.warning("no job verifies the newest checkpoint in %s: %s", ascii(run.directory), ascii(reason))
            self.skipped.append(run)
        return True
