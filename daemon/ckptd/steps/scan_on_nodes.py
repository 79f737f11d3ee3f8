"""Scans locations that only a job's nodes see, by short steps in the jobs of their owners.

What such a step says is its owner's own statement. It shows which checkpoints there are; each of its scans is recorded
with a problem, so that nothing is ever removed because of it, and no flag opens: docs/decisions/0026.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import PurePosixPath

from ckptd.checkpoints.node_steps.node_scan_client import WHAT, NodeScanOutcome, NodeScanRequest, scan_on_nodes
from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import RunKey, Scan, Unknown
from ckptd.core.node_scans import due_scans, step_result
from ckptd.core.node_scans.due_scans import TriedScan
from ckptd.core.node_scans.node_directories import is_on_nodes
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.record_scans import record_on_node
from ckptd.steps.results import IDLE, LogLine, StepResult, warning
from ckptd.steps.snapshots import NOT_RUN, NodeScanTotals
from ckptd.steps.state import State

INTERVAL = timedelta(seconds=10)  # between two steps of the daemon
FOUND, FAILED = "found", "failed"


@dataclass(slots=True)
class NodeScanSlice:
    """State of this step alone."""

    tried: dict[RunKey, TriedScan] = field(default_factory=dict)
    known: set[RunKey] = field(default_factory=set)  # runs of which the record was asked for an earlier scan
    ambiguous: Mapping[RunKey, tuple[str, ...]] = field(default_factory=dict)


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Run the steps that are due, a few at once, and record what they found."""
    policy = parts.node_scans
    if state.latest(NodeScanTotals).directories != policy.directories:
        state.change(NodeScanTotals, lambda totals: replace(totals, directories=policy.directories))
    if not policy.directories:
        return IDLE
    memory = state.own(NodeScanSlice, NodeScanSlice)
    watched = {each.key: each for each in state.watchlist.all if is_on_nodes(each.key.directory, policy.directories)}
    _drop_ended(state, watched, now)
    memory.tried = {run: each for run, each in memory.tried.items() if run in watched}
    memory.known &= watched.keys()
    tracked = [(known.run, known.job) for known in state.latest(PolledQueue).tracked.values() if known.run is not None]
    interval = timedelta(seconds=policy.interval_seconds)
    _remember_scans(parts, state, memory, watched)
    due = due_scans.list_due(watched, tracked, memory.tried, interval, now)
    _record_ambiguous(parts, state, memory, watched, due.ambiguous, now)
    asked = [NodeScanRequest(run=run, job=job) for run, job in islice(due.jobs.items(), policy.max_running)]
    if not asked:
        return IDLE
    memory.tried |= {each.run: TriedScan(due_scans.name_attempt(each.job), now) for each in asked}
    lines: list[LogLine] = []
    for each, outcome in zip(asked, scan_on_nodes(parts.agent, asked, policy, now), strict=True):
        found = outcome.found
        if isinstance(found, Unknown) and parts.runner.is_stopping():
            continue  # the agent ends, too: that says nothing about the location
        _count(state, outcome)
        if isinstance(found, Unknown):
            lines += [_explain(each, found)] if outcome.seconds is not None else []
        else:
            problem = step_result.explain_witness(outcome.host, each.job.slurm_name)
            found = replace(found, problems=(problem, *found.problems))
        record_on_node(parts, state, watched[each.run], found, now)
    is_unfinished = len(due.jobs) > len(asked) and not parts.runner.is_stopping()
    return StepResult(lines=tuple(lines), is_unfinished=is_unfinished)


def _remember_scans(parts: Parts, state: State, memory: NodeScanSlice, watched: Collection[RunKey]) -> None:
    """Take scans of running attempts from the record, so that a daemon that starts again asks no node too soon."""
    new = set(watched) - memory.known
    if not new:
        return
    memory.known |= new
    recorded = parts.store.checkpoints.read_last_scans(parts.cluster, list(new))
    for known in state.latest(PolledQueue).tracked.values():
        last = recorded.get(known.run) if known.run is not None and known.run in new else None
        if known.run is None or last is None or last.scanned_at is None or known.attempt is None:
            continue
        if known.run not in memory.tried and known.attempt.started_at <= last.scanned_at:
            memory.tried[known.run] = TriedScan(due_scans.name_attempt(known.job), last.scanned_at)


def _drop_ended(state: State, watched: Mapping[RunKey, WatchedRun], now: datetime) -> None:
    """Watch no longer what has no job any more: no node can be asked, and the last scan stays on record."""
    for run, each in watched.items():
        if each.is_last_scan:
            state.watchlist.record_scan(
                run, Scan(directory=PurePosixPath(run.directory), scanned_at=now, checkpoints=()), now
            )


def _record_ambiguous(
    parts: Parts,
    state: State,
    memory: NodeScanSlice,
    watched: Mapping[RunKey, WatchedRun],
    ambiguous: Mapping[RunKey, tuple[str, ...]],
    now: datetime,
) -> None:
    """Record once that it is unknown which job's node has the checkpoints."""
    for run, names in ambiguous.items():
        if memory.ambiguous.get(run) != names:
            named = " and ".join(names[:3])
            reason = f"jobs {named} use it at the same time, and the node of each may have another one"
            record_on_node(parts, state, watched[run], Unknown(what=WHAT, reason=reason), now)
    memory.ambiguous = ambiguous


def _count(state: State, outcome: NodeScanOutcome) -> None:
    how = NOT_RUN if outcome.seconds is None else FAILED if isinstance(outcome.found, Unknown) else FOUND
    state.change(NodeScanTotals, lambda totals: totals.plus(how, outcome.seconds or 0.0))


def _explain(asked: NodeScanRequest, trouble: Unknown) -> LogLine:
    text = f"step in job {asked.job.slurm_name} did not scan {asked.run.directory!a}: {trouble.reason!a}"
    return warning(text, run=asked.run.directory, job=asked.job.job_id)
