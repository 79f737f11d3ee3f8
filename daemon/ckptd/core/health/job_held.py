"""A job that ckptd has held: its user must hear of that, and how to let it go on."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.health.interface import Speaker
from ckptd.core.model import Evidence, Finding, Job, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts


@dataclass(frozen=True, slots=True)
class JobHeld:
    """Holds while a job waits because ckptd has held it."""

    name: ClassVar[str] = "job-held"

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        speaker = Speaker(self.name, history)
        held = [job for job in history.jobs if facts.is_held_by_ckptd(history, job)]
        return tuple(self._say(speaker, job) for job in held)

    def _say(self, speaker: Speaker, job: Job) -> Finding:
        evidence: dict[str, Evidence] = {"restart_count": job.restart_count, "release_with": _command(job)}
        advice = (
            "ckptd has held this job, because it was requeued again and again and saved nothing new. It does not "
            "start until you say so: read its output, fix why it ends before it saves, then let it go on with "
            f"{_command(job)}, or cancel it."
        )
        return speaker.say(job, Severity.WARNING, evidence, advice)


def _command(job: Job) -> str:
    return f"scontrol release {job.slurm_name}"
