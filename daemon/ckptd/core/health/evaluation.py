"""Asks the rules about one run, where there is something to ask them of: fresh looks at jobs that are to be judged."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ckptd.core import history as facts
from ckptd.core import maintenance
from ckptd.core.declared import is_declared_without
from ckptd.core.health.interface import Rule
from ckptd.core.model import Finding, RunHistory, RunKey, Scan, Unknown

RESUME_GRACE = timedelta(minutes=10)  # after a suspension, for a look at what the job does


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What the rules say of one run. A rule in `undecided` neither opens nor resolves a flag."""

    run: RunKey
    findings: tuple[Finding, ...] = ()
    undecided: frozenset[str] = frozenset()


def evaluate(
    history: RunHistory,
    rules: Iterable[Rule],
    now: datetime,
    *,
    max_age: timedelta,
    min_job_duration: timedelta,
    max_scan_age: timedelta | None = None,
) -> Evaluation:
    """Ask every rule about one run.

    The queue must have been seen within `max_age` and the directory within `max_scan_age`, else all are undecided; so
    they are while a job is suspended or its nodes are in maintenance, and for a while after it. Short jobs and those
    that are declared not to checkpoint are not judged.
    """
    rules = tuple(rules)
    if not history.jobs:
        return Evaluation(run=history.key)  # nothing of the run is in the queue: whatever held has ended
    if _is_stale(history, now, max_age, max_scan_age) or _is_resting(history, now):
        return Evaluation(run=history.key, undecided=frozenset(rule.name for rule in rules))
    judged = tuple(
        job
        for job in history.jobs
        if (job.time_limit is None or job.time_limit >= min_job_duration) and not is_declared_without(job)
    )
    if not judged or not history.wishes.is_saving:
        return Evaluation(run=history.key)
    history = replace(history, jobs=judged)
    findings: list[Finding] = []
    undecided: set[str] = set()
    for rule in rules:
        answer = rule.evaluate(history, now)
        if isinstance(answer, Unknown):
            undecided.add(rule.name)
        else:
            findings.extend(_heed_mute(finding, history.wishes.muted) for finding in answer)
    return Evaluation(run=history.key, findings=tuple(findings), undecided=frozenset(undecided))


def _heed_mute(finding: Finding, muted: frozenset[str]) -> Finding:
    """Return a finding that leaves out a user who does not want to be told; administrators still are."""
    if finding.rule not in muted:
        return finding
    return replace(finding, tells=tuple(who for who in finding.tells if who != "user"))


def _is_stale(history: RunHistory, now: datetime, max_age: timedelta, max_scan_age: timedelta | None) -> bool:
    if history.polled_at is None or now - history.polled_at > max_age:
        return True
    scan = history.scan
    if not isinstance(scan, Scan):
        return False  # each rule says itself what it needs
    if max_scan_age is not None and now - scan.scanned_at > max_scan_age:
        return True
    # only a look at the directory after the newest running attempt began counts for it
    begun = [attempt.started_at for attempt in history.attempts if attempt.ended_at is None]
    return bool(begun) and scan.scanned_at < max(begun)


def _is_resting(history: RunHistory, now: datetime) -> bool:
    if facts.is_suspended(history) or maintenance.is_under_way(history, now):
        return True
    until = [history.suspended_until[job.job_id] for job in history.jobs if job.job_id in history.suspended_until]
    return any(now - instant < RESUME_GRACE for instant in until)
