"""A first attempt that has run long and saved nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core import history as facts
from ckptd.core.model import Finding, RunHistory, Severity, Unknown


@dataclass(frozen=True, slots=True)
class NoCheckpointYet:
    """Holds once the smaller of `after` and `share_of_limit` of the time limit has passed without a checkpoint."""

    name: ClassVar[str] = "no-checkpoint-yet"
    after: timedelta = timedelta(hours=1)
    share_of_limit: float = 0.25

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        if not facts.was_read_whole(history):
            return Unknown(what=self.name, reason="the checkpoint directory was not read whole")
        if facts.present(history):
            return ()
        findings: list[Finding] = []
        for job in facts.running_jobs(history):
            attempt = facts.attempt_of(history, job)
            if attempt is None or facts.is_restart(attempt):
                continue
            run_time = now - attempt.started_at
            bound = self.after if job.time_limit is None else min(self.after, job.time_limit * self.share_of_limit)
            if run_time <= bound or facts.saves_since(history, attempt.started_at):
                continue
            findings.append(
                Finding(
                    rule=self.name,
                    severity=Severity.WARNING,
                    run=history.key,
                    job_id=job.job_id,
                    user=history.user,
                    evidence={
                        "run_time_seconds": int(run_time.total_seconds()),
                        "bound_seconds": int(bound.total_seconds()),
                        "directory": history.key.directory if history.key.is_located else None,
                    },
                    advice=(
                        "Nothing has been saved since the job began. If it does save, tell ckptd where "
                        "(--comment=ckpt=PATH or .ckptd.toml); if it does not, all of it is lost when it ends early."
                    ),
                )
            )
        return findings
