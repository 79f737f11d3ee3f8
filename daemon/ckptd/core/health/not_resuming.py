"""Detect a restart that did not load its furthest checkpoint, and computes saved work again.

If it is known what the attempt resumed from, the rule uses that, also if its checkpoints repeat a step. Otherwise the
rule compares its checkpoints with those saved before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.health.interface import FindingBuilder
from ckptd.core.model import (
    Attempt,
    Certainty,
    EndCause,
    Evidence,
    Finding,
    Job,
    RecordedCheckpoint,
    Resume,
    Role,
    RunHistory,
    Severity,
    Unknown,
)
from ckptd.core.runs import history as facts
from ckptd.core.runs.attempt_index import index_attempts
from ckptd.core.runs.copied_checkpoints import list_complete_copies
from ckptd.core.runs.meant_restarts import (
    COUNTS_ANEW,
    RestartIntent,
    find_continued,
    find_intent,
    is_next_part,
)
from ckptd.core.runs.ownership import last_saves_until
from ckptd.core.runs.removed_checkpoints import find_removal
from ckptd.core.runs.resumable import may_be_results
from ckptd.core.runs.rotated_copies import leave_out_previous

_BY_PERSON = frozenset({RestartIntent.RESUBMITTED, RestartIntent.DECLARED})


@dataclass(frozen=True, slots=True)
class NotResuming:
    """Flag a restart that did not resume from the checkpoint with the most progress, until it has saved more progress.

    If the checkpoints contain no progress, the rule flags a start from the beginning that the program's files prove.
    The flag is critical, except in these cases, in which it is a warning:
    - the files may be results;
    - all checkpoints were deleted before a person started the job again;
    - a person submitted the job again after it had failed or was cancelled;
    - the job declared what it loaded;
    - it saves under other names;
    - its program may count from 0 after a resume.

    No flag opens if a person started the job again and less than `min_loss` of work was saved, or if the job before it
    completed.
    """

    name: ClassVar[str] = "not-resuming"
    min_loss: timedelta = timedelta(minutes=10)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        findings: list[Finding] = []
        for job in facts.running_jobs(history):
            attempt = facts.attempt_of(history, job)
            if attempt is None or not facts.is_restart(attempt):
                continue
            if not facts.reaches_back(history, attempt.started_at):
                return Unknown(
                    what=self.name, reason="the checkpoints saved before the restart are no longer on record"
                )
            intent = find_intent(attempt, _find_before(history, attempt), job)
            if intent is not RestartIntent.COMPLETED:
                findings += self._judge(history, job, attempt, intent)
        return findings

    def _judge(
        self, history: RunHistory, job: Job, attempt: Attempt, intent: RestartIntent | None
    ) -> Iterator[Finding]:
        began_at = last_saves_until(attempt, _find_before(history, attempt))
        before, since = _choose_states(
            facts.complete_at(history, began_at), leave_out_previous(facts.saves_since(history, began_at))
        )
        if not before or not since:
            return
        since = sorted(since, key=_saved_at)
        newest = since[-1]
        if continued := find_continued(before, since):
            newest, before = continued
            since = since[: since.index(newest) + 1]
        elif is_next_part(newest, history.checkpoints, attempt.started_at):
            return
        elif (earlier := _find_before(history, attempt)) and earlier.cause is EndCause.COMPLETED:
            return  # other work, after that was done
        else:
            intent = intent or RestartIntent.OTHER_NAMES
        if intent is None and newest.checkpoint.format in COUNTS_ANEW and not _is_known(attempt.resumed_from):
            intent = RestartIntent.COUNTED_ANEW
        removal = find_removal(history, attempt)
        is_by_person = intent in _BY_PERSON or (removal is not None and removal.is_by_hand)
        may_be_meant = intent is not None or is_by_person
        severity = Severity.WARNING if may_be_meant or may_be_results(history) else Severity.CRITICAL
        evidence = _compare(history, attempt, before, since)
        if evidence is not None and not (is_by_person and _is_redone_in(self.min_loss, history, before)):
            evidence["deleted_count"] = removal.checkpoint_count if removal else 0
            evidence["intent"] = intent.value if intent else None
            yield FindingBuilder(self.name, history).make_finding(job, severity, evidence)


def _is_redone_in(bound: timedelta, history: RunHistory, before: Sequence[RecordedCheckpoint]) -> bool:
    """Whether all that was saved took less run time than a bound: each time from the start, as far as is known."""
    works = [_work_in(history, record) for record in before]
    return all(work is not None and work < bound for work in works)


def _work_in(history: RunHistory, record: RecordedCheckpoint) -> timedelta | None:
    """Return the run time from the beginning to a checkpoint; None where the attempt that saved it may have resumed."""
    saved_at = _saved_at(record)
    running = [each for each in history.attempts if each.started_at <= saved_at]
    if not running:
        return None
    attempt = running[-1]
    began_anew = len(running) == 1 or (attempt.resumed_from is not None and attempt.resumed_from.is_fresh)
    return saved_at - attempt.started_at if began_anew else None


def _find_before(history: RunHistory, attempt: Attempt) -> Attempt | None:
    return index_attempts(history).find_before(attempt.started_at)


def _compare(
    history: RunHistory, attempt: Attempt, before: Sequence[RecordedCheckpoint], since: Sequence[RecordedCheckpoint]
) -> dict[str, Evidence] | None:
    """Return the evidence that an attempt did not go on with what was saved before; None if it did, or may have."""
    unit, newest = _common_unit(before, since), max(since, key=_saved_at)
    if unit is None:
        is_fresh = _is_proven_fresh(attempt.resumed_from)
        return _make_evidence(attempt, max(before, key=_saved_at), None, None, None) if is_fresh else None
    reached, saved = max(_value(record, unit) for record in before), _value(newest, unit)
    resume = attempt.resumed_from if attempt.resumed_from and attempt.resumed_from.is_known else None
    copied = list_complete_copies(history, attempt.started_at)
    has_resumed = _has_resumed(resume, before, copied, unit) if resume else None
    if has_resumed or saved > reached or (saved == reached and has_resumed is None):
        return None
    if _is_further(newest, before, "epoch" if unit == "step" else "step"):
        return None  # the two units disagree: a batch of another size changes steps
    source = max(before, key=lambda record: _value(record, unit))
    return _make_evidence(attempt, source, unit, reached, saved)


def _make_evidence(
    attempt: Attempt, source: RecordedCheckpoint, unit: str | None, reached: float | None, saved: float | None
) -> dict[str, Evidence]:
    """Return the evidence, without a unit if the checkpoints state no progress but prove a start from the beginning."""
    resume = attempt.resumed_from if attempt.resumed_from and attempt.resumed_from.is_known else None
    return {
        "unit": unit,
        "saved_before": reached,
        "saved_now": saved,
        "restart_count": attempt.restart_count,
        "should_resume_from": str(source.checkpoint.path),
        "is_still_there": source.deleted_at is None,
        "saved_at": source.completed_at.isoformat() if source.completed_at else None,
        "resume_certainty": resume.certainty.value if resume else None,
        "resumed_from": resume.path if resume else None,
    }


def _saved_at(record: RecordedCheckpoint) -> datetime:
    return record.completed_at or record.first_seen_at


def _is_known(resume: Resume | None) -> bool:
    return resume is not None and resume.is_known


def _is_proven_fresh(resume: Resume | None) -> bool:
    return resume is not None and resume.certainty is Certainty.PROVEN and resume.is_fresh


def _choose_states(
    before: Iterable[RecordedCheckpoint], since: Iterable[RecordedCheckpoint]
) -> tuple[list[RecordedCheckpoint], list[RecordedCheckpoint]]:
    """Return the resumable states of both; if the run has none, everything that it saves."""
    both = [*before], [*since]
    states = tuple([each for each in side if each.checkpoint.role is Role.STATE] for side in both)
    return (states[0], states[1]) if any(states) else both


def _has_resumed(
    resume: Resume, before: Sequence[RecordedCheckpoint], copied: Sequence[RecordedCheckpoint], unit: str
) -> bool | None:
    """Return whether the attempt loaded a checkpoint with the furthest progress; None if that is not known.

    `copied` are those that the run's further locations had. A job may begin on an empty fast disk and put the newest of
    these back: then later ones were not there to be loaded.
    """
    if resume.is_fresh:
        return False
    loaded = [
        _value(record, unit)
        for record in before
        if str(record.checkpoint.path) == resume.path and record.completed_at == resume.saved_at
    ]
    if not loaded and resume.evidence.get("unit") == unit and isinstance(value := resume.evidence.get("loaded"), float):
        loaded = [value]  # a backup is on record by when it was made, and not by when its state was saved
    if not loaded:
        return None
    left = [each for each in before if not _is_put_back_over(each, before)] if copied else before
    return max(loaded) >= max(_value(each, unit) for each in (*left, *copied) if _has(each, unit))


def _is_put_back_over(record: RecordedCheckpoint, before: Iterable[RecordedCheckpoint]) -> bool:
    """Whether an older checkpoint took the place of this one before anything else did."""
    return record.deleted_at is not None and any(
        other.checkpoint.path == record.checkpoint.path
        and other.first_seen_at >= record.deleted_at
        and _saved_at(other) < _saved_at(record)
        for other in before
    )


def _common_unit(before: Iterable[RecordedCheckpoint], since: Iterable[RecordedCheckpoint]) -> str | None:
    """Return the unit in which both sides can be compared; prefer steps over epochs."""
    both = [*before], [*since]
    for unit in ("step", "epoch"):
        if all(side and all(_has(record, unit) for record in side) for side in both):
            return unit
    return None


def _is_further(newest: RecordedCheckpoint, before: Sequence[RecordedCheckpoint], unit: str) -> bool:
    if not all(_has(each, unit) for each in (newest, *before)):
        return False
    return _value(newest, unit) > max(_value(each, unit) for each in before)


def _has(record: RecordedCheckpoint, unit: str) -> bool:
    return getattr(record.checkpoint, unit) is not None


def _value(record: RecordedCheckpoint, unit: str) -> float:
    value = record.checkpoint.step if unit == "step" else record.checkpoint.epoch
    return float(value or 0)
