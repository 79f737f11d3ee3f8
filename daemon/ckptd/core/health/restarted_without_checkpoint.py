"""Detect a restart without a checkpoint: all earlier work of the run is lost."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.discovery.declared import list_unmet
from ckptd.core.forecast.projection import MARGIN
from ckptd.core.health.at_risk import signal_seconds
from ckptd.core.health.interface import FindingBuilder, not_whole, seconds
from ckptd.core.model import (
    Attempt,
    CheckpointState,
    EndCause,
    Evidence,
    Finding,
    Job,
    RunHistory,
    Severity,
    Unknown,
)
from ckptd.core.runs import copied_checkpoints
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.runs.downloaded_inputs import are_only_inputs
from ckptd.core.runs.earlier_attempts import EarlierAttempts
from ckptd.core.runs.observations import INTERRUPTIONS
from ckptd.core.runs.possible_saves import find_possible_save_of_run
from ckptd.core.runs.removed_checkpoints import find_removal
from ckptd.core.runs.resumable import are_only_data


@dataclass(frozen=True, slots=True)
class RestartedWithoutCheckpoint:
    """Flag a restart without a checkpoint, until it completes one, if earlier attempts ran for at least `min_loss`.

    Example: a job runs for five hours, is requeued, and its directory has no complete checkpoint. The flag is critical
    and resolves with the first complete one.

    - **Critical**: the directory is known, or a named one does not exist.
    - **Warning**: nobody named a directory, and a search found none. Or it found only data that the restart writes
      again from the beginning, or only weights that were written at starts and may be downloads. It is also a warning
      if all checkpoints were deleted before a person started the job again, because the person may intend to start
      over.
    - **No flag**: ckptd cannot see the named directory, or it contains only files of unknown formats that may be
      checkpoints; `checkpoints-not-located` reports that. Or the run time was less than `min_loss`: little is lost, and
      `no-checkpoint-yet` opens if the restart does not save either.
    """

    name: ClassVar[str] = "restarted-without-checkpoint"
    min_loss: timedelta = timedelta(minutes=10)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        if not facts.was_read_whole(history):
            return not_whole(self.name)
        if find_possible_save_of_run(history):
            return ()  # checkpoints-not-located reports it
        findings: list[Finding] = []
        earlier = EarlierAttempts(history)
        for job, attempt in facts.running_attempts(history):
            if not facts.is_restart(attempt) or _may_have_resumed(history, attempt):
                continue
            if unread := copied_checkpoints.list_unread(history):
                return Unknown(what=self.name, reason=f"{unread[0]} was not read completely")
            if _was_first_scan_late(history, attempt):
                return Unknown(what=self.name, reason="the run was first seen after this attempt started")
            lost = earlier.measure_before(attempt)
            if lost is None or lost >= self.min_loss:
                findings.append(self._finding(history, job, attempt, lost, earlier))
        return findings

    def _finding(
        self, history: RunHistory, job: Job, attempt: Attempt, lost: timedelta | None, earlier: EarlierAttempts
    ) -> Finding:
        there = [record for record in history.checkpoints if facts.recorded_at(record, attempt.started_at)]
        states = {record.checkpoint.state for record in there}
        found = "none"
        if CheckpointState.DAMAGED in states:
            found = "damaged"
        elif CheckpointState.UNKNOWN in states:
            found = "unreadable"
        elif CheckpointState.WRITING in states:
            found = "unfinished"
        unmet: list[str] = [each.path for each in list_unmet(history, [job])]
        is_data = are_only_data(history)
        is_input = are_only_inputs(history)
        found = "data" if is_data else "inputs" if is_input else found
        is_known = bool(unmet) or (history.key.is_located and not is_data and not is_input)
        removal = find_removal(history, attempt) if found == "none" else None
        found = "deleted" if removal else found
        may_be_meant = removal is not None and removal.is_by_hand
        cut_short = _list_cut_short(history, attempt, earlier) if found in {"none", "unfinished"} else []
        evidence: dict[str, Evidence] = {
            "found": found,
            "deleted_count": removal.checkpoint_count if removal else 0,
            "restart_count": attempt.restart_count,
            "kind": attempt.kind.value if attempt.kind else None,
            "attempts": len(history.attempts),
            "started_at": attempt.started_at.isoformat(),
            "earlier_run_time_seconds": seconds(lost),
            "directory": history.key.directory if history.key.is_located else None,
            "located_by": history.located_by,
            "unmet_names": unmet,
            "searched": None if is_known or is_data or is_input or job.work_dir is None else str(job.work_dir),
            "interrupted_attempts": len(cut_short),
            "longest_seconds": seconds(max(cut_short, default=None)),
            "signal_seconds": signal_seconds(measure_rhythm(history).save_time, MARGIN),
        }
        return FindingBuilder(self.name, history).make_finding(
            job, Severity.CRITICAL if is_known and not may_be_meant else Severity.WARNING, evidence
        )


def _may_have_resumed(history: RunHistory, attempt: Attempt) -> bool:
    """Return whether there was something to resume from, or the attempt has saved since."""
    if are_only_data(history):
        return not (attempt.resumed_from and attempt.resumed_from.is_fresh)  # it may continue from what it wrote
    if are_only_inputs(history):
        return False
    is_saved = facts.saves_since(history, attempt.started_at)
    return bool(is_saved) or copied_checkpoints.had_complete(history, attempt.started_at)


def _list_cut_short(history: RunHistory, attempt: Attempt, earlier: EarlierAttempts) -> list[timedelta]:
    """Return how long the latest consecutive attempts before this one ran that were cut short and saved nothing."""
    found: list[timedelta] = []
    for other in reversed(earlier.list_before(attempt)):
        is_cut = other.cause in INTERRUPTIONS or other.cause is EndCause.REQUEUE
        has_saved = earlier.progress[other.job, other.restart_count].save_count
        if other.ended_at is None or not is_cut or has_saved or facts.is_broken_off(history, other):
            break
        found.append(other.ended_at - other.started_at)
    return found


def _was_first_scan_late(history: RunHistory, attempt: Attempt) -> bool:
    """Return whether a checkpoint could have been saved and deleted before ckptd's first scan."""
    return history.recorded_since is not None and history.recorded_since > attempt.started_at and history.scan is None
