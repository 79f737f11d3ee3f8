"""Follows the jobs of owners that the daemon, or a command that was interrupted, has submitted.

It asks about each of them once, and records the results that are ready. It never waits for the queue.
"""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from ckptd.checkpoints.executor import NO_RESULT, Ticket, TicketState
from ckptd.core.model import Unknown
from ckptd.core.verification.ticket import UNWATCHED_AFTER, VerificationTicket
from ckptd.steps import first_scan_jobs
from ckptd.steps.parts import Parts
from ckptd.steps.record_comparison import record_comparison
from ckptd.steps.record_verification import record_result
from ckptd.steps.results import IDLE, LogLine, StepResult, info, warning
from ckptd.steps.state import State

INTERVAL = timedelta(seconds=30)  # between two steps
MAX_SECONDS = 60.0  # of one step, after which no further ticket is asked about
MAX_TICKETS = 60  # of one step: each is a request to slurmctld


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Follow the tickets that no command follows, in turns, and submit jobs for first scans."""
    if parts.job_executor is None:
        return IDLE
    until = time.monotonic() + MAX_SECONDS
    lines: list[LogLine] = []
    tickets = parts.store.verification_tickets.list_unwatched(parts.cluster, now - UNWATCHED_AFTER)
    for ticket in choose_turn(tickets, now):
        if parts.runner.is_stopping() or time.monotonic() >= until:
            break
        lines += first_scan_jobs.follow(parts, state, ticket, now) if ticket.is_scan else _follow(parts, ticket, now)
    lines += first_scan_jobs.submit_wanted(parts, state, tickets, now)
    return StepResult(bool(tickets or lines), tuple(lines))


def choose_turn(tickets: Sequence[VerificationTicket], now: datetime) -> Sequence[VerificationTicket]:
    """Return the tickets of one step; of more than MAX_TICKETS, each step takes the next ones."""
    turns = max(1, -(-len(tickets) // MAX_TICKETS))
    start = int(now.timestamp() // INTERVAL.total_seconds()) % turns * MAX_TICKETS
    return tickets[start : start + MAX_TICKETS]


def _follow(parts: Parts, known: VerificationTicket, now: datetime) -> list[LogLine]:
    executor, ticket = parts.job_executor, Ticket(known.name)
    assert executor is not None
    progress = executor.follow(ticket)
    if isinstance(progress, Unknown) or progress.state is not TicketState.READY:
        return []
    count: int | Unknown
    if known.is_comparison:
        compared = record_comparison(parts.store, executor, known.run, ticket, now)
        count, what = compared if isinstance(compared, Unknown) else len(compared), "compared {} copies of checkpoints"
    else:
        changes = record_result(parts.store, executor, known.run, ticket, now)
        count, what = changes if isinstance(changes, Unknown) else len(changes.changed), "read {} checkpoints"
    if isinstance(count, Unknown) and count.what != NO_RESULT:
        return []
    where = ascii(known.run.directory)
    if isinstance(count, Unknown):
        line = warning(f"verification job {known.job_id} gave no result for {where}: {count.reason!a}")
    else:
        line = info(f"verification job {known.job_id} {what.format(count)} in {where}")
    trouble = executor.release(ticket)
    if trouble is not None:
        return [line, warning(f"its ticket stays: {trouble.reason!a}")]
    return [line]
