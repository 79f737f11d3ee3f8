"""Detect that the copies of a run's checkpoints fall behind: the command that makes them may have failed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import ClassVar, NamedTuple

from ckptd.core.health.copy_differs import list_differing
from ckptd.core.health.interface import FindingBuilder, not_whole, seconds
from ckptd.core.model import (
    CheckpointState,
    CopyLocation,
    Evidence,
    Finding,
    RecordedCheckpoint,
    RunHistory,
    Severity,
    Unknown,
)
from ckptd.core.runs import copied_checkpoints
from ckptd.core.runs import history as facts
from ckptd.core.runs.compared_content import differs
from ckptd.core.runs.copied_checkpoints import OriginalDates
from ckptd.core.runs.resumable import list_resumable
from ckptd.core.runs.rotated_copies import leave_out_previous


@dataclass(frozen=True, slots=True)
class CopyBehind:
    """Flag a run while its copies are behind its checkpoints by more than `factor` times the usual delay.

    Example: copies usually arrive an hour after their checkpoint, and `factor` is 3. The flag opens when a checkpoint
    is older than three hours and has no copy, and resolves when the copies are at most 1.5 hours behind.

    - The usual delay is known once copies have arrived `min_copies` times. Until then, the flag opens if a checkpoint
      was not copied for `first_after`.
    - A delay of less than `min_lag` opens no flag.
    - The time before the first checkpoint that was not copied counts as at most one usual delay, because the job may
      have waited. The same applies to the time before the running attempt, because nothing is copied while no job runs.
    - A copy that `copy-differs` flags counts here: it did arrive, and what is wrong with it is reported once.
    """

    name: ClassVar[str] = "copy-behind"
    factor: float = 3.0
    min_lag: timedelta = timedelta(minutes=30)
    min_copies: int = 3
    first_after: timedelta = timedelta(hours=24)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        job = facts.current_job(history)
        if not history.copies or job is None or not job.is_running:
            return ()
        if not facts.was_read_whole(history):
            return not_whole(self.name)
        is_open = facts.is_flagged(history, self.name, job)
        attempt = None if is_open else facts.attempt_of(history, job)
        began_at = attempt.started_at if attempt else None
        answers = [self._judge(history, copy, now, began_at, is_open=is_open) for copy in history.copies]
        late = [each for each in answers if isinstance(each, _Delay)]
        if not late:
            open_evidence = history.context.open_evidence.get((self.name, job.job_id), {})
            known = zip(history.copies, answers, strict=True)
            unknown = {copy.directory: each for copy, each in known if isinstance(each, Unknown)}
            return next((unknown[each] for each in _list_flagged(open_evidence) if each in unknown), ())
        worst = max(late, key=lambda each: each.lag)
        evidence: dict[str, Evidence] = {
            "directory": worst.copy.directory,
            "other_directories": [each.copy.directory for each in late if each is not worst],
            "newest_good": str(worst.original.checkpoint.path),
            "newest_copy": None if worst.newest is None else str(worst.newest.checkpoint.path),
            "behind_seconds": seconds(worst.lag),
            "usual_seconds": seconds(worst.usual),
        }
        return (FindingBuilder(self.name, history).make_finding(job, Severity.WARNING, evidence),)

    def _judge(
        self, history: RunHistory, copy: CopyLocation, now: datetime, began_at: datetime | None, *, is_open: bool
    ) -> "_Delay | Unknown | None":
        """Return by how much a location is behind if that is too much; Unknown if it cannot be determined."""
        if not copy.was_read_whole:
            return Unknown(what=self.name, reason=f"{copy.directory} was not read completely")
        originals = [each for each in list_resumable(history.checkpoints) if _is_complete(each)]
        saves = leave_out_previous(originals)
        there = [each for each in saves if each.deleted_at is None]
        if not there:
            return None
        dates = OriginalDates(history.checkpoints)
        flagged = {id(each) for each, _ in list_differing(history, copy)}
        resumable = list_resumable(copy.checkpoints)
        copied = (each for each in resumable if id(each) in flagged or not differs(history, each))
        arrived = [each for each in copied if _is_complete(each)]
        present = leave_out_previous(each for each in arrived if each.deleted_at is None)
        newest = max(present, key=lambda each: copied_checkpoints.date_of(each, dates), default=None)
        copied_until = None if newest is None else copied_checkpoints.date_of(newest, dates)
        missing = [each for each in there if copied_until is None or each.checkpoint.modified_at > copied_until]
        if not missing:
            return None
        if any(
            each.checkpoint.state is CheckpointState.WRITING for each in copy.checkpoints if each.deleted_at is None
        ):
            return Unknown(what=self.name, reason=f"a copy is being written in {copy.directory}")
        original = max(missing, key=lambda each: each.checkpoint.modified_at)
        lags = _list_lags(originals, arrived, dates)
        if len(lags) < self.min_copies or copied_until is None:
            usual, bound = None, self.first_after
            lag = now - _missing_since(missing, arrived)
        else:
            usual = timedelta(seconds=median(lag.total_seconds() for lag in lags))
            bound = max(usual * self.factor, self.min_lag)
            first = min(  # one that was overwritten since was not copied, either
                each.checkpoint.modified_at for each in saves if each.checkpoint.modified_at > copied_until
            )
            since = max(copied_until, min(max(first, began_at or first), original.checkpoint.modified_at) - usual)
            lag = original.checkpoint.modified_at - since
        if lag <= (bound / 2 if is_open else bound):
            return None
        return _Delay(copy, lag, usual, original, newest)


def _list_flagged(evidence: Mapping[str, object]) -> list[str]:
    """Return the locations that an open flag is about."""
    others = evidence.get("other_directories")
    return [str(evidence.get("directory")), *(map(str, others) if isinstance(others, list) else ())]


class _Delay(NamedTuple):
    """How far one location is behind the primary one."""

    copy: CopyLocation
    lag: timedelta
    usual: timedelta | None  # None: not known yet
    original: RecordedCheckpoint  # the newest that was not copied
    newest: RecordedCheckpoint | None  # the newest copy


def _is_complete(record: RecordedCheckpoint) -> bool:
    return record.checkpoint.state is CheckpointState.COMPLETE


def _missing_since(missing: Iterable[RecordedCheckpoint], arrived: Iterable[RecordedCheckpoint]) -> datetime:
    """Return since when a checkpoint was not copied, or no copy was left."""
    since = min(each.completed_at or each.first_seen_at for each in missing)
    return max([since, *(each.deleted_at for each in arrived if each.deleted_at is not None)])


def _list_lags(
    originals: Iterable[RecordedCheckpoint], arrived: Iterable[RecordedCheckpoint], dates: OriginalDates
) -> list[timedelta]:
    """Return by how much the newest copy was older than the newest original, each time before new copies arrived.

    Where the originals of that time are not held any more, the newest one can have been as new as that moment.
    """
    newest_by_scan: dict[datetime, datetime] = {}
    for each in arrived:
        saved_at = copied_checkpoints.date_of(each, dates)
        newest_by_scan[each.first_seen_at] = max(saved_at, newest_by_scan.get(each.first_seen_at, saved_at))
    written = sorted(each.checkpoint.modified_at for each in originals)
    lags: list[timedelta] = []
    for (_, before), (seen_at, after) in pairwise(sorted(newest_by_scan.items())):
        if after > before:
            known = [at for at in written if at <= seen_at]
            lags.append(max((known[-1] if known else seen_at) - before, timedelta(0)))
    return lags
