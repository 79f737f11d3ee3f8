"""What the health rules find, and the flags that are opened for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ckptd.core.model.runs import RunKey


class Severity(StrEnum):
    """How severe a flag is, least severe first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}

Evidence = str | int | float | bool | None | list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A rule that holds now, before it is compared with the open flags. `present` words its evidence."""

    rule: str
    severity: Severity
    run: RunKey
    job_id: int | None
    user: str
    evidence: Mapping[str, Evidence]
    audience: tuple[str, ...] = ("user",)
    recorded_advice: str = ""  # text that an earlier version recorded with less evidence; empty in new findings


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """A finding over time: it opens, may worsen, and resolves."""

    flag_id: int | None = None
    finding: Finding
    opened_at: datetime
    worsened_at: datetime | None = None
    resolved_at: datetime | None = None
