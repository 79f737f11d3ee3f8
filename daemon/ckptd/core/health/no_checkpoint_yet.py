"""An attempt that has run long and saved nothing: the first of its run, or one before which the run had hardly run."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.discovery.declared import list_unmet
from ckptd.core.health.interface import Speaker, bounded, not_whole, seconds
from ckptd.core.model import Attempt, CheckpointState, Evidence, Finding, Job, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts


@dataclass(frozen=True, slots=True)
class NoCheckpointYet:
    """Holds once the smaller of `after` and `share_of_limit` of the time limit has passed without a checkpoint.

    A restart is judged as a first attempt is where all before it was shorter than that: nobody was told of it then.
    """

    name: ClassVar[str] = "no-checkpoint-yet"
    after: timedelta = timedelta(hours=1)
    share_of_limit: float = bounded(0.25, least=0, most=1)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        running = facts.running_jobs(history)
        attempts = [(job, attempt) for job in running if (attempt := facts.attempt_of(history, job)) is not None]
        judged = [(job, attempt) for job, attempt in attempts if self._is_judged(history, job, attempt)]
        if not judged and len(attempts) == len(running):
            return ()  # no look at a directory is needed to know that what this is about has ended
        if not facts.was_read_whole(history):
            return not_whole(self.name)
        findings: list[Finding] = []
        for job, attempt in judged:
            run_time, bound = facts.run_time(job, attempt, now), self._bound(job)
            if run_time <= bound or _has_saved(history, attempt):
                continue
            unmet = [each.path for each in list_unmet(history, [job])]
            evidence: dict[str, Evidence] = {
                "run_time_seconds": seconds(run_time),
                "bound_seconds": seconds(bound),
                "time_left_seconds": seconds(job.ends_at - now) if job.ends_at and job.time_limit else None,
                "directory": history.key.directory if history.key.is_located else None,
                "unmet_names": unmet,
            }
            advice = _ADVICE_ON_NAMES if unmet else _advise(history, job)
            findings.append(Speaker(self.name, history).say(job, Severity.WARNING, evidence, advice))
        return findings

    def _bound(self, job: Job) -> timedelta:
        return self.after if job.time_limit is None else min(self.after, job.time_limit * self.share_of_limit)

    def _is_judged(self, history: RunHistory, job: Job, attempt: Attempt) -> bool:
        if not facts.is_restart(attempt):
            return True
        before = facts.run_before(history, attempt)
        return before is not None and before < self._bound(job) and not facts.complete_at(history, attempt.started_at)


def _has_saved(history: RunHistory, attempt: Attempt) -> bool:
    """Whether there is anything of this attempt, or was; of a run's first one whatever is there may be its own."""
    if facts.saves_since(history, attempt.started_at):
        return True
    return any(
        not facts.is_restart(attempt)
        or record.checkpoint.state is CheckpointState.COMPLETE
        or record.checkpoint.modified_at >= attempt.started_at
        for record in facts.present(history)
    )


def _advise(history: RunHistory, job: Job) -> str:
    """Say what can be done; a running job stays with the directory that was found for it."""
    update = f"scontrol update JobId={job.slurm_name} Comment=ckpt="
    later = "--comment=ckpt=PATH or `directory` in .ckptd.toml"
    if history.key.is_located:
        place, told = f" in {history.key.directory}", f"elsewhere, name that place for the next job ({later})"
    else:
        place, told = "", f"somewhere, name the place: {update}PATH, and for later jobs {later}"
    return (
        f"Nothing has been saved{place} since the job began. If it does save {told}. If it does not, all of it is lost "
        f"when it ends early; if that is by design, say so: {update}none, and --comment=ckpt=none for later jobs."
    )


_ADVICE_ON_NAMES = (
    "Nothing has been saved since the job began, and there is no directory where its comment or .ckptd.toml says that "
    "its checkpoints are. Is the name right, and did the job make the directory? A relative name starts from the "
    "working directory. If nothing is saved, all of it is lost when the job ends early."
)
