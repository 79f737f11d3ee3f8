"""What one moment of the daemon looks like from outside: the only thing that metrics and the status page read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core.model import Severity


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Counts and times after the last step. `slurm_trouble` is the reason why Slurm does not answer."""

    cluster: str
    made_at: datetime
    slurm_trouble: str | None = None
    polled_at: datetime | None = None
    scanned_at: datetime | None = None
    jobs_by_state: Mapping[str, int] = field(default_factory=dict)
    runs_by_locator: Mapping[str, int] = field(default_factory=dict)
    unknown_directories: int = 0
    unwatched_directories: int = 0
    flags_by_rule: Mapping[tuple[str, Severity], int] = field(default_factory=dict)
    checkpoints_by_format: Mapping[tuple[str, str], int] = field(default_factory=dict)  # (format, state)
    bytes_by_format: Mapping[str, int] = field(default_factory=dict)
    poll_duration: timedelta | None = None
    scan_duration: timedelta | None = None
    decide_duration: timedelta | None = None
