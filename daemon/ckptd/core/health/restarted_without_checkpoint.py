"""Detect a restart without a checkpoint: all earlier work of the run is lost."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.discovery.declared import list_unmet
from ckptd.core.forecast.projection import MARGIN
from ckptd.core.health.at_risk import signal_seconds
from ckptd.core.health.interface import Speaker, not_whole, seconds
from ckptd.core.model import Attempt, CheckpointState, Evidence, Finding, Job, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.text.formatting import format_duration


@dataclass(frozen=True, slots=True)
class RestartedWithoutCheckpoint:
    """Flag a restart without a checkpoint, until it completes one, if the run had run for at least `min_loss` before.

    After less run time little is lost, and `no-checkpoint-yet` covers the case that the restart does not save either.
    """

    name: ClassVar[str] = "restarted-without-checkpoint"
    min_loss: timedelta = timedelta(minutes=10)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        if not facts.was_read_whole(history):
            return not_whole(self.name)
        findings: list[Finding] = []
        for job in facts.running_jobs(history):
            attempt = facts.attempt_of(history, job)
            if attempt is None or not facts.is_restart(attempt):
                continue
            if facts.complete_at(history, attempt.started_at) or facts.saves_since(history, attempt.started_at):
                continue
            if _came_late(history, attempt):
                return Unknown(what=self.name, reason="the run was first seen after this attempt started")
            lost = facts.run_before(history, attempt)
            if lost is None or lost >= self.min_loss:
                findings.append(self._finding(history, job, attempt, lost))
        return findings

    def _finding(self, history: RunHistory, job: Job, attempt: Attempt, lost: timedelta | None) -> Finding:
        there = [record for record in history.checkpoints if facts.recorded_at(record, attempt.started_at)]
        states = {record.checkpoint.state for record in there}
        found = "none"
        if CheckpointState.DAMAGED in states:
            found = "damaged"
        elif CheckpointState.UNKNOWN in states:
            found = "unreadable"
        elif CheckpointState.WRITING in states:
            found = "unfinished"
        rhythm = measure_rhythm(history)
        evidence: dict[str, Evidence] = {
            "found": found,
            "restart_count": attempt.restart_count,
            "kind": attempt.kind.value if attempt.kind else None,
            "attempts": len(history.attempts),
            "started_at": attempt.started_at.isoformat(),
            "earlier_run_time_seconds": seconds(lost),
            "directory": history.key.directory if history.key.is_located else None,
            "unmet_names": [each.path for each in list_unmet(history, [job])],
        }
        is_named = found == "none" and history.located_by in {"comment", "user-file"}
        advice = (_NAMED if is_named else _ADVICE[found]).format(
            directory=history.key.directory if history.key.is_located else "its working directory",
            lost=f"{format_duration(lost)} of earlier work is" if lost is not None else "its earlier work is",
            signal=signal_seconds(rhythm.save_time, MARGIN),
        )
        return Speaker(self.name, history).say(job, Severity.CRITICAL, evidence, advice)


def _came_late(history: RunHistory, attempt: Attempt) -> bool:
    """Return whether a checkpoint could have been saved and deleted before ckptd's first scan."""
    return history.recorded_since is not None and history.recorded_since > attempt.started_at and history.scan is None


_NAMED = (
    "This job restarted without a checkpoint: {directory} contained no complete checkpoint when it started, so {lost} "
    "lost. Save a first checkpoint within a few minutes of the start, and check that it is written to {directory}."
)
_ADVICE = {
    "none": (
        "This job restarted without a checkpoint: ckptd found no complete checkpoint of it, so {lost} lost. Save a "
        "first checkpoint within a few minutes of the start. If the job does save checkpoints, name their directory: "
        "submit with --comment=ckpt=PATH, or add `directory` to .ckptd.toml in its working directory."
    ),
    "damaged": (
        "This job restarted without a checkpoint: it had only damaged ones, so {lost} lost. Keep at least the newest "
        "two checkpoints, and write each under a temporary name before you rename it."
    ),
    "unreadable": (
        "This job may have restarted without a checkpoint: ckptd could not read the checkpoints in {directory}. Check "
        "the permissions of the directory."
    ),
    "unfinished": (
        "This job restarted without a checkpoint: its only one was still being written when the earlier attempt ended, "
        "so {lost} lost. Request a signal earlier (#SBATCH --signal=B:TERM@{signal}) and save a checkpoint when it "
        "arrives."
    ),
}
