"""The executor that verifies by Slurm jobs of the files' owner.

Nothing here waits for the queue: `follow` asks once, and submits lost tasks again. Tickets are kept by the caller's
record, so that they outlive the process.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Protocol

from ckptd.checkpoints.agent.batches import BatchRunner
from ckptd.checkpoints.executor import (
    NO_RESULT,
    CollectedDigests,
    SkippedRequest,
    Ticket,
    TicketProgress,
    TicketState,
    VerificationRequest,
    Witness,
    name_piece,
    unknown_ticket,
)
from ckptd.checkpoints.verify_jobs import verify_client
from ckptd.checkpoints.verify_jobs.verify_client import RefusedSubmission, SeenTasks
from ckptd.core.model import Checkpoint, RunKey, Unknown
from ckptd.core.verification import task_results
from ckptd.core.verification.followed_tasks import FollowedTasks, judge_tasks
from ckptd.core.verification.scan_tasks import count_tasks
from ckptd.core.verification.skip_reasons import SkipReason
from ckptd.core.verification.split_tasks import split_tasks
from ckptd.core.verification.task_results import ResultError
from ckptd.core.verification.ticket import VerificationTicket


class TicketRecord(Protocol):
    """Keeps tickets."""

    def add(self, ticket: VerificationTicket) -> None: ...

    def read(self, name: str) -> VerificationTicket | None: ...

    def change(self, ticket: VerificationTicket) -> None: ...

    def delete(self, name: str) -> None: ...

    def count_open(self, cluster: str, uid: int) -> int: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLimits:
    """The site's limits of verification jobs."""

    max_tasks: int = 64
    task_bytes: int = 100 << 30  # what one task reads at least, before there is a second one
    max_open: int = 4  # tickets of one user
    max_tries: int = 3
    max_wait: timedelta = timedelta(days=7)
    scan_entries: int = 0  # of a directory that one task of a first scan reads


@dataclass(frozen=True, kw_only=True, slots=True)
class JobExecutor:
    """Verifies by array jobs of the files' owner."""

    agent: BatchRunner
    tickets: TicketRecord
    limits: JobLimits
    deadline: timedelta
    read_time: Callable[[], datetime]

    @property
    def witness(self) -> Witness:
        return Witness.OWNER

    def submit(self, request: VerificationRequest) -> Ticket | SkippedRequest | Unknown:
        run, limits = request.run, self.limits
        if self.tickets.count_open(run.cluster, run.uid) >= limits.max_open:
            return SkippedRequest(SkipReason.FULL, f"{limits.max_open} are waiting or running")
        tasks = split_tasks(request.pieces, limits.max_tasks, limits.task_bytes)
        return self._begin(
            VerificationTicket(
                name=secrets.token_hex(8),
                run=run,
                requested_at=request.now,
                tasks=tasks,
                is_comparison=request.is_comparison,
            )
        )

    def submit_scan(self, run: RunKey, entry_count: int, now: datetime) -> Ticket | SkippedRequest:
        """Let jobs read what a scan on this node left unread in a directory with so many entries.

        Scans on this node take the results, as soon as a task has one, and believe of them what `job_results` says.
        """
        limits = self.limits
        if self.tickets.count_open(run.cluster, run.uid) >= limits.max_open:
            return SkippedRequest(SkipReason.FULL, f"{limits.max_open} jobs of the owner are waiting or running")
        tasks = ((),) * count_tasks(entry_count, limits.scan_entries, limits.max_tasks)
        name = secrets.token_hex(8)
        return self._begin(VerificationTicket(name=name, run=run, requested_at=now, tasks=tasks, is_scan=True))

    def _begin(self, ticket: VerificationTicket) -> Ticket | SkippedRequest:
        self.tickets.add(ticket)  # before its job, which is found by this name if this process ends meanwhile
        refused = self._send(ticket, range(len(ticket.tasks)))
        if refused is None:
            return Ticket(ticket.name)
        self.tickets.delete(ticket.name)
        return SkippedRequest(refused.reason, refused.detail)

    def follow(self, ticket: Ticket) -> TicketProgress | Unknown:
        known = self.tickets.read(ticket)
        if known is None:
            return unknown_ticket(ticket)
        if known.end_reason is not None:
            return TicketProgress(TicketState.READY, known.size_bytes)
        seen = verify_client.follow(self.agent, known, self.deadline)
        now = self.read_time()
        if isinstance(seen, Unknown):
            if self._is_overdue(known, now):
                self.tickets.change(replace(known, end_reason=f"no answer about its job: {seen.reason}"))
            return seen
        found = judge_tasks(known, seen.results, seen.states, now)
        done_bytes = sum(piece.size_bytes for number in found.finished for piece in known.tasks[number])
        if len(found.finished) == len(known.tasks):
            return TicketProgress(TicketState.READY, done_bytes, found.finished)
        after = self._advance(known, seen, found, now)
        if after.end_reason is not None:
            return TicketProgress(TicketState.READY, done_bytes, found.finished)
        state = TicketState.RUNNING if found.has_begun else TicketState.WAITING
        return TicketProgress(state, done_bytes, found.finished)

    def collect(self, ticket: Ticket) -> tuple[Checkpoint, ...] | Unknown:
        known = self.tickets.read(ticket)
        if known is None:
            return unknown_ticket(ticket)
        directory = PurePosixPath(known.run.directory)
        found: list[Checkpoint] = []
        reason = known.end_reason
        for task, answer in zip(known.tasks, verify_client.collect(self.agent, known, self.deadline), strict=True):
            if isinstance(answer, Unknown):
                return answer  # nobody read it: it can be collected later
            if isinstance(answer, ResultError):
                reason = reason or str(answer)
            else:
                found += task_results.apply_verdicts(task, answer, directory)
        return tuple(found) if found or reason is None else Unknown(what=NO_RESULT, reason=reason)

    def collect_digests(self, ticket: Ticket) -> CollectedDigests | Unknown:
        known = self.tickets.read(ticket)
        if known is None:
            return unknown_ticket(ticket)
        found: CollectedDigests = {}
        answers = verify_client.collect_digests(self.agent, known, self.deadline)
        for task, answer in zip(known.tasks, answers, strict=True):
            if isinstance(answer, Unknown):
                return answer
            if isinstance(answer, ResultError):
                reason = known.end_reason or str(answer)
                found |= {name_piece(piece): Unknown(what=NO_RESULT, reason=reason) for piece in task}
            else:
                found |= zip(map(name_piece, task), answer, strict=True)
        return found

    def release(self, ticket: Ticket) -> Unknown | None:
        known = self.tickets.read(ticket)
        if known is None:
            return None
        trouble = verify_client.cancel(self.agent, known, self.deadline)
        if trouble is not None and not self._is_overdue(known, self.read_time()):
            return trouble
        self.tickets.delete(known.name)
        return None

    def _send(self, ticket: VerificationTicket, numbers: Sequence[int]) -> RefusedSubmission | None:
        """Submit tasks, and record the job; without an answer, `follow` finds it by the ticket's name."""
        answer = verify_client.submit(self.agent, ticket, numbers, self.deadline)
        if isinstance(answer, RefusedSubmission):
            return answer
        job_id = None if isinstance(answer, Unknown) else answer
        self.tickets.change(replace(ticket, job_id=job_id, silent_since=None))
        return None

    def _advance(
        self, known: VerificationTicket, seen: SeenTasks, found: FollowedTasks, now: datetime
    ) -> VerificationTicket:
        """Record what was seen of a ticket, and submit its lost tasks again as long as that is allowed."""
        silent_since = (known.silent_since or now) if found.is_silent else None
        after = replace(known, job_id=seen.job_id, silent_since=silent_since)
        if found.lost and known.try_count < self.limits.max_tries and not found.is_cancelled:
            after = replace(after, try_count=known.try_count + 1, job_id=None, silent_since=None)
            self.tickets.change(after)
            refused = self._send(after, found.lost)
            if refused is None:
                return after
            if refused.reason is SkipReason.FULL:  # to be tried again
                self.tickets.change(known)
                return known
            after = replace(after, end_reason=refused.detail)
        elif found.lost:
            after = replace(after, end_reason=self._explain_end(known, found))
        elif self._is_overdue(known, now):
            after = replace(after, end_reason=f"its job did not end within {self.limits.max_wait}")
        if after != known:
            self.tickets.change(after)
        return after

    def _is_overdue(self, ticket: VerificationTicket, now: datetime) -> bool:
        return now - ticket.requested_at > self.limits.max_wait

    def _explain_end(self, ticket: VerificationTicket, found: FollowedTasks) -> str:
        if found.is_cancelled:
            return f"job {ticket.job_id} was cancelled"
        return f"{len(found.lost)} tasks left no result after {ticket.try_count} tries"
