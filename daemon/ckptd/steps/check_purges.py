"""Reads what the rule `will-be-purged` needs: the workspaces of runs, and scans of ended runs that may be deleted soon.

It does nothing unless [[purge]] rules or databases of workspaces are configured and the rule is enabled. Nothing here
deletes anything, and retention does not ask for it.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.checkpoints.agent.client import NOT_REACHED
from ckptd.checkpoints.agent.scan_client import find_workspaces
from ckptd.core.forecast.purge_date import find_rule
from ckptd.core.health.will_be_purged import WillBePurged
from ckptd.core.model import RunKey, Scan, Unknown, Workspace
from ckptd.steps.parts import Parts
from ckptd.steps.results import IDLE, LogLine, StepResult, warning
from ckptd.steps.snapshots import PurgeFacts, SharedRuns
from ckptd.steps.state import State

LIST_GAP = timedelta(hours=1)  # between two queries for ended runs
LOOKUP_GAP = timedelta(hours=1)  # between two reads of the same workspace: users extend it
SCAN_GAP = timedelta(days=1)  # between two scans of the same ended run: nothing writes there
MAX_LOOKUPS = 2000  # directories in one step
MAX_SCANS = 100  # in one step
MARGIN = timedelta(days=1)  # by which the oldest file of a checkpoint may be older than the newest


@dataclass(slots=True)
class PurgeSlice:
    """State of this step alone."""

    listed_at: datetime | None = None
    saved: dict[RunKey, datetime] = field(default_factory=dict)  # ended runs: when the newest checkpoint was written
    looked_up_at: dict[RunKey, datetime] = field(default_factory=dict)
    scanned_at: dict[RunKey, datetime] = field(default_factory=dict)
    troubles: frozenset[str] = frozenset()  # why workspaces could not be read, as far as they are in the log


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Read workspaces and scan ended runs that are due; a decision follows if anything changed."""
    before = state.latest(PurgeFacts)
    rules = tuple(_list_rules(parts))
    if not rules or not (parts.purge_rules or parts.workspace_databases):
        if before != PurgeFacts():
            _publish(state, PurgeFacts())
        return IDLE
    memory = state.own(PurgeSlice, PurgeSlice)
    queued = {each.key for each in state.watchlist.all if each.key.is_located}
    elsewhere = state.latest(SharedRuns).elsewhere
    flagged = _list_flagged(parts) - queued - elsewhere
    _list_saved(parts, memory, max(each.ended_within for each in rules), now)
    over = (memory.saved.keys() | flagged) - queued - elsewhere
    workspaces = _read_workspaces(parts, memory, before, queued | over, now)
    warn_before = max(each.warn_before for each in rules)
    due = [key for key in over if key in flagged or _is_due(parts, memory, key, workspaces.get(key), now + warn_before)]
    after = PurgeFacts(workspaces=workspaces, ended=_scan_ended(parts, state, before, due, now))
    if after != before:
        _publish(state, after)
    lines = tuple(_log_new_reasons(memory, workspaces))
    return StepResult(found_work=after != before, lines=lines)


def change_parts(_parts: Parts, state: State, _now: datetime) -> None:
    """Read everything again at the next run: the rules or the databases may be others."""
    if memory := state.find(PurgeSlice):
        memory.listed_at = None
        memory.looked_up_at = {}


def _publish(state: State, facts: PurgeFacts) -> None:
    state.publish(facts)
    state.decision_due.set()


def _list_rules(parts: Parts) -> Iterator[WillBePurged]:
    """Yield the site's rule and those of overrides: what any of them needs is read for all."""
    for rules in (parts.rules, *(override.rules for override in parts.overrides)):
        yield from (rule for rule in rules if isinstance(rule, WillBePurged))


def _list_flagged(parts: Parts) -> set[RunKey]:
    flags = parts.store.flags.list_open(parts.cluster)
    return {flag.finding.run for flag in flags if flag.finding.rule == WillBePurged.name}


def _list_saved(parts: Parts, memory: PurgeSlice, ended_within: timedelta, now: datetime) -> None:
    """Query the ended runs that have checkpoints, if that was not done of late or the clock was set back."""
    if memory.listed_at is None or not timedelta(0) <= now - memory.listed_at < LIST_GAP:
        memory.saved = parts.store.ended_runs.list_saved(parts.cluster, now - ended_within)
        memory.listed_at = now


def _read_workspaces(
    parts: Parts, memory: PurgeSlice, before: PurgeFacts, keys: Collection[RunKey], now: datetime
) -> dict[RunKey, Workspace | Unknown | None]:
    """Return the workspaces of runs; read those of which nothing was read of late, the longest ago first."""
    if not parts.workspace_databases:
        return {}
    read_at = memory.looked_up_at = {key: at for key, at in memory.looked_up_at.items() if key in keys}
    late = [key for key in keys if key not in read_at or not timedelta(0) <= now - read_at[key] < LOOKUP_GAP]
    late.sort(key=lambda key: (key in read_at, read_at.get(key, now)))
    asked = late[:MAX_LOOKUPS]
    found = find_workspaces(parts.agent, asked, parts.limits.deadline) if asked else []
    answered = {key: each for key, each in zip(asked, found, strict=True) if each is not NOT_REACHED}
    read_at.update(dict.fromkeys(answered, now))
    return {key: each for key, each in before.workspaces.items() if key in keys} | answered


def _is_due(
    parts: Parts, memory: PurgeSlice, key: RunKey, workspace: Workspace | Unknown | None, until: datetime
) -> bool:
    """Whether a scan is worth it: the site may delete checkpoints of an ended run until then."""
    if isinstance(workspace, Workspace) and workspace.expires_at <= until:
        return True
    rule = find_rule(key.directory, parts.purge_rules)
    return rule is not None and key in memory.saved and memory.saved[key] + rule.age - MARGIN <= until


def _scan_ended(
    parts: Parts, state: State, before: PurgeFacts, due: Collection[RunKey], now: datetime
) -> dict[RunKey, Scan | Unknown]:
    """Return the scans of these runs; scan those again that were not scanned of late."""
    memory = state.own(PurgeSlice, PurgeSlice)
    scanned_at = memory.scanned_at = {key: at for key, at in memory.scanned_at.items() if key in due}
    late = [key for key in due if key not in scanned_at or not timedelta(0) <= now - scanned_at[key] < SCAN_GAP]
    found = parts.runner.scan(parts, state, late[:MAX_SCANS], (), now) if late else {}
    found = {key: scan for key, scan in found.items() if scan is not NOT_REACHED}
    scanned_at.update(dict.fromkeys(found, now))
    return {**{key: scan for key, scan in before.ended.items() if key in due}, **found}


def _log_new_reasons(memory: PurgeSlice, workspaces: dict[RunKey, Workspace | Unknown | None]) -> Iterator[LogLine]:
    """Log each reason once, for as long as it lasts."""
    troubles = frozenset(each.reason for each in workspaces.values() if isinstance(each, Unknown))
    yield from (warning(f"workspaces are unknown: {reason}") for reason in sorted(troubles - memory.troubles))
    memory.troubles = troubles
