"""Define the interface of health rules and how they report findings: as evidence, which `present` words."""

from collections.abc import Iterable, Mapping
from dataclasses import Field, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Protocol

from ckptd.core.model import Evidence, Finding, Job, RunHistory, Severity, Unknown
from ckptd.core.tracked_now import read_seconds


def bounded(default: float, *, least: float, most: float | None = None) -> Any:
    """Return a threshold field with explicit bounds.

    Without it a count must be at least 1, a factor above 0, and a duration not negative.
    """
    return field(default=default, metadata={"least": least, "most": most})


class Rule(Protocol):
    """A frozen dataclass whose fields are its thresholds."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        """Return one finding for each job with this problem; Unknown if the facts do not suffice to decide."""


class FindingBuilder:
    """Create the findings of one rule about one run."""

    def __init__(self, rule: str, history: RunHistory, *, audience: tuple[str, ...] = ("user",)) -> None:
        self._rule = rule
        self._history = history
        self._audience = audience

    def make_finding(self, job: Job, severity: Severity, evidence: Mapping[str, Evidence]) -> Finding:
        """Return a finding about a job of the run; `slurm_job` in its evidence names the job in commands."""
        return Finding(
            rule=self._rule,
            severity=severity,
            run=self._history.key,
            job_id=job.job_id,
            user=self._history.user,
            evidence={**evidence, "slurm_job": job.slurm_name},
            audience=self._audience,
        )


def seconds(duration: timedelta | None) -> int | None:
    """Return a duration in whole seconds for evidence, rounded as in texts; no decision may depend on it."""
    if duration is None:
        return None
    return round(read_seconds(duration))


def not_whole(rule: str) -> Unknown:
    """Return the Unknown of a rule that needs a complete scan of the directory."""
    return Unknown(what=rule, reason="the checkpoint directory was not read completely")
