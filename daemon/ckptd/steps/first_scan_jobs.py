"""Lets jobs of the owners read what the first scans of large directories leave, where the site has such jobs.

The scans on this node go on meanwhile, newest checkpoints first. They take the result of each task as soon as there is
one, and a job that they no longer need is cancelled. So a slow queue delays nothing. After a refusal, this node reads
all by itself.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.checkpoints.agent.requests import MAX_RESULTS
from ckptd.checkpoints.agent.scan_client import JobTasks
from ckptd.checkpoints.executor import NO_RESULT, SkippedRequest, Ticket, TicketState
from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import RunKey, Scan, Unknown
from ckptd.core.node_scans.node_directories import is_on_nodes
from ckptd.core.verification.ticket import VerificationTicket
from ckptd.steps.parts import Parts
from ckptd.steps.results import LogLine, info, warning
from ckptd.steps.snapshots import JobResultOffers
from ckptd.steps.state import State

MAX_SUBMISSIONS = 5  # of one step: each is a few requests to Slurm
UNREAD_FOR = timedelta(minutes=5)  # before a job is submitted: most directories need a few scans on this node alone
AFTER_REFUSAL = timedelta(hours=1)  # until another job of the user may be submitted
AFTER_END = timedelta(days=1)  # of a job that left something unread: another one would read all again
OFFERED_FOR = timedelta(hours=1)  # then scans go on without: it may be the results that make them fail


@dataclass(slots=True)
class FirstScanSlice:
    """What this process knows of first scans by jobs; after a restart, results are offered again."""

    offered: dict[str, frozenset[int]] = field(default_factory=dict)  # tasks whose results scans were given, by ticket
    offered_at: dict[str, datetime] = field(default_factory=dict)  # the last of them, by ticket
    ended: set[str] = field(default_factory=set)  # tickets that get no further result
    unread_since: dict[RunKey, datetime] = field(default_factory=dict)  # of large directories
    again_at: dict[RunKey | int, datetime] = field(default_factory=dict)  # next job of a run, or of any run of a user


def follow(parts: Parts, state: State, ticket: VerificationTicket, now: datetime) -> list[LogLine]:
    """Ask about a ticket once, and offer new results to the scans; release a ticket that is no longer needed."""
    executor, memory = parts.job_executor, state.own(FirstScanSlice, FirstScanSlice)
    assert executor is not None
    watched = state.watchlist.get(ticket.run)
    is_overdue = now - ticket.requested_at > executor.limits.max_wait + AFTER_END
    if watched is None or is_overdue or not _is_needed(parts, watched):
        return _release(parts, state, ticket, now)
    if ticket.run in state.latest(JobResultOffers).by_run:
        if now - memory.offered_at.get(ticket.name, now) < OFFERED_FOR:
            return []  # until a scan has taken those before
        state.change(JobResultOffers, lambda offers: offers.without_ticket(ticket.name))
    given = memory.offered.get(ticket.name, frozenset())
    everything = frozenset(range(len(ticket.tasks)))
    if ticket.name in memory.ended and given >= everything:
        return _release(parts, state, ticket, now)
    if ticket.name in memory.ended:
        finished = everything
    else:
        progress = executor.follow(Ticket(ticket.name))
        if isinstance(progress, Unknown):
            return _release(parts, state, ticket, now) if progress.what == NO_RESULT else []
        is_ended = progress.state is TicketState.READY
        finished = everything if is_ended else progress.finished  # a task that left none is soon seen to
        if is_ended:
            memory.ended.add(ticket.name)
    if isinstance(watched.last, Unknown):
        return []  # while scans fail, none takes a result
    if new := sorted(finished - given)[:MAX_RESULTS]:
        memory.offered[ticket.name] = given.union(new)
        memory.offered_at[ticket.name] = now
        offer = JobTasks(ticket.name, tuple(new))
        state.change(JobResultOffers, lambda offers: offers.with_offer(ticket.run, offer))
        state.watchlist.hasten([ticket.run], now)
    return []


def submit_wanted(
    parts: Parts, state: State, tickets: Collection[VerificationTicket], now: datetime
) -> Iterator[LogLine]:
    """Submit jobs for directories that are large and not read whole, one for each user at a time."""
    executor, memory = parts.job_executor, state.own(FirstScanSlice, FirstScanSlice)
    assert executor is not None
    most = executor.limits.scan_entries
    if not most:
        return
    busy = {each.run.uid for each in tickets if each.is_scan}
    memory.again_at = {each: at for each, at in memory.again_at.items() if at > now}
    wanted = _list_wanted(state, most)
    memory.unread_since = {run: memory.unread_since.get(run, now) for run in wanted}
    left = MAX_SUBMISSIONS
    for run, last in wanted.items():
        is_early = run in memory.again_at or run.uid in memory.again_at or now - memory.unread_since[run] < UNREAD_FOR
        if run.uid in busy or is_early or is_on_nodes(run.directory, parts.node_scans.directories):
            continue
        if not left or parts.runner.is_stopping():
            return
        left -= 1
        busy.add(run.uid)
        where, count = ascii(run.directory), last.unread_count
        answer = executor.submit_scan(run, last.entry_count, now)
        if isinstance(answer, SkippedRequest):
            memory.again_at[run.uid] = now + AFTER_REFUSAL
            yield warning(f"no job reads the {count} checkpoints in {where} that are not read yet: {answer.detail!a}")
        else:
            yield info(f"a job of the owner was submitted to read {count} checkpoints in {where}")


def _list_wanted(state: State, most: int) -> dict[RunKey, Scan]:
    """Return the last scans that left something unread in a directory with more entries than that."""
    found = {each.key: each.last for each in state.watchlist.all}
    return {
        run: last
        for run, last in found.items()
        if isinstance(last, Scan) and last.unread_count and last.entry_count > most
    }


def _is_needed(parts: Parts, watched: WatchedRun | None) -> bool:
    """Whether the site lets jobs take part in first scans, and something of this one is left."""
    if parts.job_executor is None or not parts.job_executor.limits.scan_entries or watched is None:
        return False
    return not isinstance(watched.last, Scan) or bool(watched.last.unread_count)


def _release(parts: Parts, state: State, ticket: VerificationTicket, now: datetime) -> list[LogLine]:
    """End what is left of a ticket, and forget it."""
    executor, memory = parts.job_executor, state.own(FirstScanSlice, FirstScanSlice)
    assert executor is not None
    state.change(JobResultOffers, lambda offers: offers.without_ticket(ticket.name))
    trouble = executor.release(Ticket(ticket.name))
    job = "a job" if ticket.job_id is None else f"job {ticket.job_id}"
    if trouble is not None:
        return [warning(f"the ticket of {job} stays: {trouble.reason!a}")]
    memory.offered.pop(ticket.name, None)
    memory.offered_at.pop(ticket.name, None)
    memory.ended.discard(ticket.name)
    where, watched = ascii(ticket.run.directory), state.watchlist.get(ticket.run)
    if not _is_needed(parts, watched):
        return [info(f"{job} is no longer needed to read {where}")]
    memory.again_at[ticket.run] = now + AFTER_END
    reason = f": {ticket.end_reason!a}" if ticket.end_reason else ""
    return [warning(f"{job} did not read all checkpoints in {where}; this node reads the rest{reason}")]
