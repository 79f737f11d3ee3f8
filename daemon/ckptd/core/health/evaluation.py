"""Evaluates the rules for one run, if its poll and scan are recent and its jobs are not exempt."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.discovery.declared import is_declared_without
from ckptd.core.health.interface import Rule
from ckptd.core.health.not_resubmitted import NotResubmitted
from ckptd.core.health.precedence import drop_superseded
from ckptd.core.health.will_be_purged import WillBePurged
from ckptd.core.model import EVERY_RULE, NOTHING, Finding, Job, RunHistory, RunKey, Scan, Unknown
from ckptd.core.queue import maintenance
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import with_rhythm
from ckptd.core.runs.checkpoint_readers import find_readers
from ckptd.core.runs.resumable import are_only_data, list_resumable, may_be_results
from ckptd.core.tracked_now import Validity, track

FOR_THE_SITE = frozenset({"unsafe-pickle", "foreign-owner"})  # user settings do not switch these off
OF_ENDED_RUNS = frozenset(
    {NotResubmitted.name, WillBePurged.name}
)  # these may stay open when the run has no job any more; all others are resolved then
# these would be wrong about data files: they are skipped unless something shows that a run's files are checkpoints
ABOUT_CHECKPOINTS = frozenset(
    {
        "no-checkpoint-yet",
        "checkpoint-overdue",
        "at-risk",
        "copy-behind",
        "copy-differs",
        "damaged-checkpoint",
        "interrupted-save",
        "not-resuming",
        "concurrent-writers",
        "too-frequent",
        "too-sparse",
    }
)
# rules about how a job saves: they are skipped for jobs that only read the run's checkpoints
ABOUT_OWN_SAVES = frozenset(
    {
        "no-checkpoint-yet",
        "checkpoint-overdue",
        "at-risk",
        "not-resuming",
        "too-frequent",
        "too-sparse",
        "will-not-finish",
    }
)
ABOUT_REGULAR_SAVES = frozenset({"checkpoint-overdue", "too-frequent", "too-sparse"})  # skipped for weights, too
# rules that ask whether their own flag is open already; to the others open flags make no difference
ASKING_FOR_OWN_FLAG = frozenset(
    {
        "at-risk",
        "concurrent-writers",
        "copy-behind",
        "damaged-checkpoint",
        "no-room",
        "not-resubmitted",
        "restart-loop",
        "too-frequent",
        "too-sparse",
        "will-be-purged",
        "will-not-finish",
    }
)
OF_ALL_FILES = frozenset({"damaged-checkpoint", "interrupted-save", "unsafe-pickle", "foreign-owner"})
RESUME_GRACE = timedelta(minutes=10)  # after a suspension, until a scan can show what the job does


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """The findings of all rules about one run. A rule in `undecided` neither opens nor resolves a flag.

    `failed` has the names of those that raised an error: a bug in ckptd, which affects only this run.
    """

    run: RunKey
    findings: tuple[Finding, ...] = ()
    undecided: frozenset[str] = frozenset()
    failed: Mapping[str, Exception] = field(default_factory=dict)


def evaluate(
    history: RunHistory,
    rules: Iterable[Rule],
    now: datetime,
    *,
    max_age: timedelta | None,
    min_job_duration: timedelta,
    max_scan_age: timedelta | None = None,
) -> Evaluation:
    """Evaluate every rule for one run.

    The queue must have been seen within `max_age` (None: at any time) and the directory within `max_scan_age`, else all
    are undecided; so they are while a job is suspended or its nodes are in maintenance, and for a while after it. Short
    jobs and those that are declared not to checkpoint are not judged but by the rules that guard the site.
    """
    rules = tuple(rules)
    if not history.jobs:
        return _ask_of_ended(history, (rule for rule in rules if rule.name in OF_ENDED_RUNS), now, max_age)
    if _is_stale(history, now, max_age, max_scan_age) or _is_resting(history, now):
        return Evaluation(run=history.key, undecided=_share_names(rule.name for rule in rules))
    judged = tuple(job for job in history.jobs if _is_judged(job, min_job_duration))
    if judged and history.user_settings.is_saving:
        history = history if judged == history.jobs else replace(history, jobs=judged)
        if may_be_results(history):
            unasked = ABOUT_CHECKPOINTS if are_only_data(history) else ABOUT_REGULAR_SAVES
            rules = tuple(rule for rule in rules if rule.name not in unasked)
        return _ask(with_rhythm(history), rules, now)
    return _ask(history, (rule for rule in rules if rule.name in FOR_THE_SITE), now)


class TimedEvaluation(NamedTuple):
    """An evaluation, and from when on the rules may answer differently about the same history; None: never.

    `scan_until`: the same about a history whose scan is later and found the same. `poll_until`: when the last poll
    becomes too old, which `until` leaves out, because later polls that found the same put it off.
    """

    evaluation: Evaluation
    until: datetime | None
    scan_until: datetime | None
    poll_until: datetime | None


def evaluate_until(
    history: RunHistory,
    rules: Iterable[Rule],
    now: datetime,
    *,
    max_age: timedelta,
    min_job_duration: timedelta,
    max_scan_age: timedelta | None = None,
) -> TimedEvaluation:
    """Ask every rule about one run, as `evaluate` does, and note until when the answers hold.

    Until then the same findings hold with the same severity, and only figures that count the time on differ.
    """
    rules, validity = tuple(rules), Validity(now)
    poll_until = None
    if history.polled_at is not None and not _is_unseen(history, now, max_age):
        poll_until = history.polled_at + max_age
    tracked, scan_validity, scan_age = _track_scan(history, validity, max_scan_age)
    seen_within = max_age if poll_until is None else None
    bounds = {"max_age": seen_within, "min_job_duration": min_job_duration, "max_scan_age": scan_age}
    try:
        found = evaluate(tracked, rules, track(now, validity), **bounds)  # type: ignore[arg-type]
        if not found.failed and all(_is_plain(each.evidence) for each in found.findings):
            return TimedEvaluation(found, validity.until, scan_validity.until, poll_until)
    except (TypeError, ValueError, AttributeError, OverflowError):
        pass  # a rule does with the time what cannot be tracked
    bounds["max_scan_age"] = max_scan_age
    plain = evaluate(history, rules, now, **bounds)  # type: ignore[arg-type]
    return TimedEvaluation(plain, now, scan_validity.now, poll_until)


def _track_scan(
    history: RunHistory, validity: Validity, max_scan_age: timedelta | None
) -> tuple[RunHistory, Validity, timedelta | None]:
    """Return a history whose scan's time is tracked, how long later scans change nothing, and the age to check yet.

    How old a scan may be is checked here, because that depends on both times.
    """
    scan, now = history.scan, validity.now
    scan_validity = Validity(scan.scanned_at if isinstance(scan, Scan) else now)
    if not isinstance(scan, Scan):
        return history, scan_validity, max_scan_age
    if max_scan_age is not None:
        if now - scan.scanned_at > max_scan_age:
            scan_validity.end_at_once()
            return history, scan_validity, max_scan_age
        validity.end_in(max_scan_age - (now - scan.scanned_at))
    return replace(history, scan=replace(scan, scanned_at=track(scan.scanned_at, scan_validity))), scan_validity, None


def _is_plain(evidence: object) -> bool:
    """Whether evidence contains only values that JSON has."""
    if isinstance(evidence, Mapping):
        return all(_is_plain(each) for each in evidence.values())
    if isinstance(evidence, list | tuple):
        return all(_is_plain(each) for each in evidence)
    return evidence is None or isinstance(evidence, str | int | float)


def _ask_of_ended(history: RunHistory, rules: Iterable[Rule], now: datetime, max_age: timedelta | None) -> Evaluation:
    """Evaluate the rules for a run without a job in the queue, if the last poll is recent."""
    if _is_unseen(history, now, max_age):
        return Evaluation(run=history.key, undecided=_share_names(rule.name for rule in rules))
    return _ask(history, rules, now)


def _is_judged(job: Job, min_job_duration: timedelta) -> bool:
    return (job.time_limit is None or job.time_limit >= min_job_duration) and not is_declared_without(job)


def _ask(history: RunHistory, rules: Iterable[Rule], now: datetime) -> Evaluation:
    """Evaluate rules; one that raises an error is undecided and does not stop the others."""
    findings: list[Finding] = []
    undecided: set[str] = set()
    failed: dict[str, Exception] = {}
    resumable = list_resumable(history.checkpoints)
    of_states = history if len(resumable) == len(history.checkpoints) else replace(history, checkpoints=resumable)
    of_writers = _leave_out_readers(of_states)
    for rule in rules:
        try:
            own = of_writers if rule.name in ABOUT_OWN_SAVES else of_states
            answer = rule.evaluate(history if rule.name in OF_ALL_FILES else own, now)
            found = () if isinstance(answer, Unknown) else tuple(answer)
        except Exception as error:  # noqa: BLE001 - what one user wrote must not end the judging of the others
            failed[rule.name] = error
            continue
        if isinstance(answer, Unknown):
            undecided.add(rule.name)
        findings.extend(_heed_mute(finding, history.user_settings.muted) for finding in found)
    return Evaluation(
        run=history.key,
        findings=drop_superseded(findings),
        undecided=_share_names(undecided | failed.keys()),
        failed=failed or NOTHING,
    )


def _leave_out_readers(history: RunHistory) -> RunHistory:
    readers = {key.job_id for key in find_readers(history)}
    return (
        replace(history, jobs=tuple(job for job in history.jobs if job.job_id not in readers)) if readers else history
    )


@functools.lru_cache(maxsize=1024)
def _share(names: frozenset[str]) -> frozenset[str]:
    return names


def _share_names(names: Iterable[str]) -> frozenset[str]:
    """Return one set for all runs with the same undecided rules: a set of ten names takes 700 bytes."""
    return _share(frozenset(names))


def _heed_mute(finding: Finding, muted: frozenset[str]) -> Finding:
    """Return the finding without its user if the user muted the rule; administrators are still notified."""
    if finding.rule not in muted and EVERY_RULE not in muted:
        return finding
    return replace(finding, audience=tuple(who for who in finding.audience if who != "user"))


def _is_stale(history: RunHistory, now: datetime, max_age: timedelta | None, max_scan_age: timedelta | None) -> bool:
    if _is_unseen(history, now, max_age):
        return True
    scan = history.scan
    if not isinstance(scan, Scan):
        return False  # each rule checks itself what it needs
    if max_scan_age is not None and now - scan.scanned_at > max_scan_age:
        return True
    # only a scan after the start of the newest running attempt counts
    begun = [attempt.started_at for attempt in history.attempts if attempt.ended_at is None]
    return bool(begun) and scan.scanned_at < max(begun)


def _is_unseen(history: RunHistory, now: datetime, max_age: timedelta | None) -> bool:
    return history.polled_at is None or (max_age is not None and now - history.polled_at > max_age)


def _is_resting(history: RunHistory, now: datetime) -> bool:
    if facts.is_suspended(history) or maintenance.is_under_way(history, now):
        return True
    until = [history.suspended_until[job.job_id] for job in history.jobs if job.job_id in history.suspended_until]
    return any(now - instant < RESUME_GRACE for instant in until)
