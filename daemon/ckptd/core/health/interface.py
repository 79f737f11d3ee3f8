"""What a health rule is, and how it says what it found."""

from collections.abc import Iterable, Mapping
from dataclasses import Field, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Protocol

from ckptd.core.model import Evidence, Finding, Job, RunHistory, Severity, Unknown


def bounded(default: float, *, least: float, most: float | None = None) -> Any:
    """Return a threshold with bounds of its own; else a count is at least 1, a factor above 0, a duration not below."""
    return field(default=default, metadata={"least": least, "most": most})


class Rule(Protocol):
    """A frozen dataclass whose fields are its thresholds."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        """Return one finding for each job that the rule holds for; Unknown where the facts do not tell."""


class Speaker:
    """Says findings for one rule about one run."""

    def __init__(self, rule: str, history: RunHistory, *, tells: tuple[str, ...] = ("user",)) -> None:
        self._rule = rule
        self._history = history
        self._tells = tells

    def say(self, job: Job, severity: Severity, evidence: Mapping[str, Evidence], advice: str) -> Finding:
        """Return a finding about a job of the run."""
        return Finding(
            rule=self._rule,
            severity=severity,
            run=self._history.key,
            job_id=job.job_id,
            user=self._history.user,
            evidence=evidence,
            advice=advice,
            tells=self._tells,
        )


def seconds(duration: timedelta | None) -> int | None:
    """Return whole seconds for evidence, rounded as sentences say them."""
    return None if duration is None else round(duration.total_seconds())


def not_whole(rule: str) -> Unknown:
    """Say that a rule about absence cannot be asked."""
    return Unknown(what=rule, reason="the checkpoint directory was not read whole")
