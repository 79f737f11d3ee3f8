"""`ckptd verify` where the site lets Slurm jobs of the owners read the checkpoints, or compare them with copies.

It submits a job for each run, follows all of them, and records each result. A signal cancels the jobs that have not
ended. A command that is killed leaves its tickets to the daemon, or to the next such command.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, TypeVar

from ckptd.checkpoints.executor import NO_RESULT, SkippedRequest, Ticket, TicketState
from ckptd.checkpoints.verify_jobs.job_executor import JobExecutor
from ckptd.cli.interruption import InterruptibleExecutor, Interruption, StoppedError
from ckptd.cli.reading_progress import ShownOutcome, ShowProgress
from ckptd.cli.reading_work import ReadingWork, WantedReading
from ckptd.core.model import RunKey, Unknown
from ckptd.core.verification.skip_reasons import SkipReason
from ckptd.core.verification.ticket import UNWATCHED_AFTER
from ckptd.store.store import Store

POLL_SECONDS = 5.0  # at least, between two questions about the same job
MAX_POLLS = 2  # questions a second, about all of them
ELSEWHERE = "another verification job reads checkpoints of this run; its result will be recorded"

Want = TypeVar("Want", bound=WantedReading)
Outcome = TypeVar("Outcome", bound=ShownOutcome)


@dataclass(kw_only=True, slots=True)
class JobVerification(Generic[Want, Outcome]):
    """One run of the command."""

    store: Store
    work: ReadingWork[Want, Outcome]
    executor: JobExecutor
    fallback: InterruptibleExecutor | None  # for owners who may submit no job; None: their checkpoints stay as they are
    interruption: Interruption
    show: ShowProgress
    outcomes: list[Outcome] = field(default_factory=list)
    _open: dict[Ticket, list[Want]] = field(default_factory=dict)
    _done_bytes: dict[Ticket, int] = field(default_factory=dict)

    def read_all(self, wanted: Sequence[Want]) -> list[Outcome]:
        """Read these checkpoints until all have a result, or a signal arrives."""
        waiting = self._adopt(_group(wanted))
        try:
            while waiting or self._open:
                waiting = {run: left for run, each in waiting.items() if (left := self._submit(run, each))}
                self._follow()
                if waiting or self._open:
                    with self.interruption.allowed():
                        time.sleep(max(POLL_SECONDS, len(self._open) / MAX_POLLS))
        except StoppedError:
            pass
        finally:
            self._release_all()
        return self.outcomes

    def _adopt(self, wanted: dict[RunKey, list[Want]]) -> dict[RunKey, list[Want]]:
        """Follow the tickets that nobody else follows; return what is to be submitted."""
        tickets = self.store.verification_tickets
        for cluster in {run.cluster for run in wanted}:
            taken = set(tickets.list_runs(cluster, is_comparison=self.work.is_comparison))
            for ticket in tickets.list_unwatched(cluster, _now() - UNWATCHED_AFTER):
                if ticket.is_scan or ticket.is_comparison is not self.work.is_comparison:
                    continue
                taken.discard(ticket.run)
                paths = {piece.path for piece in ticket.pieces}
                covered = [each for each in wanted.get(ticket.run, []) if paths.issuperset(self.work.list_paths(each))]
                if covered:
                    self._open[Ticket(ticket.name)] = covered
                    wanted[ticket.run] = [each for each in wanted[ticket.run] if each not in covered]
            for run in taken & wanted.keys():
                self._add(self.work.explain(wanted.pop(run), ELSEWHERE))
        return {run: left for run, left in wanted.items() if left}

    def _submit(self, run: RunKey, wanted: list[Want]) -> list[Want]:
        """Submit the checkpoints of one run; return them if that must wait for other jobs of its owner."""
        if self.interruption.is_stopped:
            return wanted
        ticket = self.executor.submit(self.work.make_request(run, wanted, _now()))
        if isinstance(ticket, SkippedRequest):
            if ticket.reason is SkipReason.FULL:
                return wanted
            self._read_here(wanted, str(ticket))
        elif isinstance(ticket, Unknown):
            self._add(self.work.explain(wanted, ticket.reason))
        else:
            self._open[ticket] = wanted
        return []

    def _read_here(self, wanted: list[Want], reason: str) -> None:
        if self.fallback is None:
            self._add(self.work.explain(wanted, reason))
            return
        for each in wanted:
            self._add(self.work.read_now(self.fallback, each, _now()))

    def _follow(self) -> None:
        """Ask about every open ticket once, and record the results that are ready."""
        self.store.verification_tickets.watch(list(self._open), _now())
        for ticket, wanted in list(self._open.items()):
            if self.interruption.is_stopped:
                return
            progress = self.executor.follow(ticket)
            if isinstance(progress, Unknown):
                if progress.what == NO_RESULT:
                    self._close(ticket, self.work.explain(wanted, progress.reason))
                continue
            self._done_bytes[ticket] = progress.done_bytes
            if progress.state is TicketState.READY:
                found = self.work.record(self.executor, ticket, wanted, _now())
                if not isinstance(found, Unknown):
                    self._close(ticket, found)
                elif found.what == NO_RESULT:
                    self._close(ticket, self.work.explain(wanted, found.reason))
        self.show(None, sum(self._done_bytes.values()))

    def _close(self, ticket: Ticket, found: Iterable[Outcome]) -> None:
        del self._open[ticket]
        self._done_bytes.pop(ticket, None)
        self.executor.release(ticket)
        self._add(found)

    def _add(self, found: Iterable[Outcome]) -> None:
        for each in found:
            self.outcomes.append(each)
            self.show(each, sum(self._done_bytes.values()))

    def _release_all(self) -> None:
        """Cancel what has not ended; without an answer, the daemon or the next command takes up what is left."""
        left = list(self._open)
        while left and self.executor.release(left[0]) is None:
            left.pop(0)
        self.store.verification_tickets.watch(left, None)


def _group(wanted: Sequence[Want]) -> dict[RunKey, list[Want]]:
    by_run: dict[RunKey, list[Want]] = defaultdict(list)
    for each in wanted:
        by_run[each.run].append(each)
    return dict(by_run)


def _now() -> datetime:
    return datetime.now(UTC)
