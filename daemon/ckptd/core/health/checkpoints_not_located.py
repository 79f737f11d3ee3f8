"""Report a restart of which nobody can say whether it had a checkpoint, because ckptd does not know where it saves."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.discovery.nearby_candidates import NOT_STARTED, summarize_doubt
from ckptd.core.health.interface import FindingBuilder, not_whole
from ckptd.core.model import Evidence, Finding, RunHistory, Severity, Unknown
from ckptd.core.runs import copied_checkpoints
from ckptd.core.runs import history as facts
from ckptd.core.runs.earlier_attempts import EarlierAttempts
from ckptd.core.runs.possible_saves import PossibleSave, find_possible_save_of_run, make_evidence


@dataclass(frozen=True, slots=True)
class CheckpointsNotLocated:
    """Flag a restart whose checkpoint directory ckptd cannot resolve or read. The flag claims no lost work.

    The same applies if the directory has no complete checkpoint and a further location of the run cannot be read, or if
    it contains files of unknown formats that were written since the run began and may be checkpoints. The rule skips a
    run whose earlier attempts ran for less than `min_loss`, as `restarted-without-checkpoint` does.
    """

    name: ClassVar[str] = "checkpoints-not-located"
    min_loss: timedelta = timedelta(minutes=10)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        if history.key.is_located:
            return self._judge_copies(history)
        if history.scan is None or history.scan == NOT_STARTED:
            return Unknown(what=self.name, reason="the directory was not searched for yet")
        doubt = summarize_doubt(history.scan)
        return () if doubt is None else self._list_restarts(history, doubt.reason)

    def _judge_copies(self, history: RunHistory) -> Iterable[Finding] | Unknown:
        """Return the restarts without a known checkpoint, if a location could not be read or has other files."""
        unread = copied_checkpoints.list_unread(history)
        possible = None if unread else find_possible_save_of_run(history)
        if not unread and possible is None:
            return ()
        if not facts.was_read_whole(history):
            return not_whole(self.name)
        if possible is None:
            return self._list_restarts(history, unread[0], is_located=True)
        reason = "its files are of no format that ckptd knows"
        return self._list_restarts(history, reason, is_located=True, possible=possible)

    def _list_restarts(
        self, history: RunHistory, reason: str, *, is_located: bool = False, possible: PossibleSave | None = None
    ) -> list[Finding]:
        findings: list[Finding] = []
        earlier = EarlierAttempts(history)
        for job, attempt in facts.running_attempts(history):
            if not facts.is_restart(attempt):
                continue
            if is_located and (
                facts.saves_since(history, attempt.started_at)
                or copied_checkpoints.had_complete(history, attempt.started_at)
            ):
                continue
            before = earlier.measure_before(attempt)
            if before is not None and before < self.min_loss:
                continue
            evidence: dict[str, Evidence] = {
                "reason": reason,
                **make_evidence(possible),
                "directory": history.key.directory if is_located else None,
                "restart_count": attempt.restart_count,
                "kind": attempt.kind.value if attempt.kind else None,
                "started_at": attempt.started_at.isoformat(),
                "searched": str(job.work_dir) if job.work_dir is not None and not is_located else None,
            }
            findings.append(FindingBuilder(self.name, history).make_finding(job, Severity.INFO, evidence))
        return findings
