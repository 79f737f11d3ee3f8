"""Detect that the newest checkpoint is damaged: a restart would fail, or start without a checkpoint."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, NamedTuple

from ckptd.core.checkpoint_sets.membership import is_short_of_others
from ckptd.core.health.interface import FindingBuilder, not_whole, seconds
from ckptd.core.model import (
    Checkpoint,
    CheckpointState,
    Evidence,
    Finding,
    Job,
    RecordedCheckpoint,
    Role,
    RunHistory,
    Scan,
    Severity,
    Unknown,
)
from ckptd.core.runs import copied_checkpoints
from ckptd.core.runs import history as facts
from ckptd.core.runs.rotated_copies import is_previous

_ROLES = list(Role)  # best to resume from first


@dataclass(frozen=True, slots=True)
class DamagedCheckpoint:
    """Flag a run while its newest finished checkpoint is damaged.

    Only a complete checkpoint of at least the same role counts as better than a damaged one: parameters without their
    optimizer are not a state to resume from. An open flag resolves only when such a checkpoint was written later. So it
    stays open while the next save, which may also be damaged, is in progress. The rule ignores a checkpoint that was
    written since the last poll, because its job may have ended and interrupted the save. It also ignores the first
    checkpoint after a restart if the only damage is that files which earlier checkpoints have are missing.
    """

    name: ClassVar[str] = "damaged-checkpoint"

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        if not isinstance(history.scan, Scan):
            return not_whole(self.name)
        job = facts.current_job(history)
        newest = _newest_damaged(facts.finished_saves(history))
        if job is None or newest is None:
            if not history.scan.is_whole:
                return not_whole(self.name)
            if job is not None and job.is_running and facts.is_flagged(history, self.name, job):
                return self._judge_open(history, job)
            return ()
        damaged = newest.checkpoint
        if history.polled_at is not None and _written_at(newest, history.scan) > history.polled_at:
            return Unknown(what=self.name, reason="the queue was not polled since it was written")
        if is_short_of_others(damaged) and _is_first_of_restart(history, job, newest):
            return Unknown(what=self.name, reason="the job may have fewer ranks since its restart; its next save tells")
        good = _newest_anywhere(history, _needed_for(damaged))
        evidence: dict[str, Evidence] = {
            "path": str(damaged.path),
            "reason": damaged.reason,
            "role": damaged.role.value,
            "format": damaged.format,
            "members": len(damaged.files),
            "written_at": _written_at(newest, history.scan).isoformat(),
            "damaged_since_good": facts.total(history).damaged_since_good,
            "newest_good": str(good.checkpoint.path) if good else None,
            "newest_good_epoch": good.checkpoint.epoch if good else None,
            "newest_good_step": good.checkpoint.step if good else None,
            "newest_good_age_seconds": seconds(now - good.checkpoint.modified_at) if good else None,
        }
        return (FindingBuilder(self.name, history).make_finding(job, Severity.CRITICAL, evidence),)

    def _judge_open(self, history: RunHistory, job: Job) -> Iterable[Finding] | Unknown:
        """Resolve an open flag only if a checkpoint as good as the damaged one should be was completed after it."""
        evidence = history.context.open_evidence.get((self.name, job.job_id), {})
        written_at = evidence.get("written_at")
        if not isinstance(written_at, str):
            return ()  # an earlier version has recorded it
        needed = _Needed(Role(str(evidence["role"])), str(evidence["format"]), int(str(evidence["members"])))
        better = _newest_better(facts.complete_now(history), needed)
        if better and better.checkpoint.modified_at > datetime.fromisoformat(written_at):
            return ()
        return Unknown(what=self.name, reason="no complete checkpoint was saved since the damaged one")


def _is_first_of_restart(history: RunHistory, job: Job, save: RecordedCheckpoint) -> bool:
    """Whether a checkpoint is the first that an attempt after a restart has written."""
    attempt = facts.attempt_of(history, job)
    if attempt is None or not facts.is_restart(attempt) or save.checkpoint.modified_at <= attempt.started_at:
        return False
    own = [each for each in facts.finished_saves(history) if each.checkpoint.modified_at > attempt.started_at]
    return {each.checkpoint.path for each in own} == {save.checkpoint.path}


def _newest_damaged(saves: Sequence[RecordedCheckpoint]) -> RecordedCheckpoint | None:
    """Return the newest damaged save, of those sorted by when they were written; None if a better one is newer."""
    complete = [each for each in saves if each.checkpoint.state is CheckpointState.COMPLETE]
    better_than_data = {each.checkpoint.format for each in complete if each.checkpoint.role is not Role.DATA}
    for save in reversed(saves):
        if save.checkpoint.state is not CheckpointState.DAMAGED:
            continue
        if save.checkpoint.role is Role.DATA and better_than_data and save.checkpoint.format not in better_than_data:
            continue  # data or a marker file beside the checkpoints of the run
        better = _newest_better(complete, _needed_for(save.checkpoint))
        is_newer = better is not None and better.checkpoint.modified_at >= save.checkpoint.modified_at
        return None if is_newer else save
    return None


class _Needed(NamedTuple):
    """What a complete checkpoint must have to replace a damaged one."""

    role: Role
    format: str
    member_count: int


def _needed_for(damaged: Checkpoint) -> _Needed:
    return _Needed(damaged.role, damaged.format, len(damaged.files))


def _newest_better(complete: Iterable[RecordedCheckpoint], needed: _Needed) -> RecordedCheckpoint | None:
    """Return the newest complete checkpoint that can be resumed from instead of a damaged one.

    The role of a damaged one may be a guess: one of its format with as many members is as good, whatever its role.
    """
    usable = [
        each
        for each in complete
        if _ROLES.index(each.checkpoint.role) <= _ROLES.index(needed.role)
        or (each.checkpoint.format == needed.format and len(each.checkpoint.files) >= needed.member_count)
    ]
    there = {str(each.checkpoint.path) for each in usable}
    own = [each for each in usable if not is_previous(str(each.checkpoint.path), there)]
    return max(own, key=lambda each: each.checkpoint.modified_at, default=None)


def _newest_anywhere(history: RunHistory, needed: _Needed) -> RecordedCheckpoint | None:
    """Return the newest that can be resumed from instead of a damaged one, in any location of the run."""
    found = _newest_better(facts.complete_now(history), needed)
    saved_at = None if found is None else found.checkpoint.modified_at
    for copy in history.copies:
        copies = copied_checkpoints.list_copies(history, copy)
        better = [each for each in copies if _newest_better([each.record], needed) is not None]
        if better and (saved_at is None or better[-1].saved_at > saved_at):
            found, saved_at = better[-1].record, better[-1].saved_at
    return found


def _written_at(record: RecordedCheckpoint, scan: Scan) -> datetime:
    """Return when a checkpoint was last written; if its date is later than the scan, when it was first seen."""
    dated_at = record.checkpoint.modified_at
    return dated_at if dated_at <= scan.scanned_at else record.first_seen_at
