"""Counts of events since the daemon started, for metrics.

They start at 0 with the daemon, as Prometheus expects of counters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ckptd.core.fleet.histogram import Distribution
from ckptd.core.model import EndCause, RestartKind, Severity

SAVE_BOUNDS = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
INTERVAL_BOUNDS = (60.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class EventTotals:
    """Counters. Every kind exists from the start, so that the first event is an increase from 0."""

    failed_polls: int = 0
    restarts: Mapping[RestartKind, int] = field(default_factory=lambda: dict.fromkeys(RestartKind, 0))
    ended_attempts: Mapping[EndCause, int] = field(default_factory=lambda: dict.fromkeys(EndCause, 0))
    opened_flags: Mapping[tuple[str, Severity], int] = field(default_factory=dict)
    resolved_flags: Mapping[str, int] = field(default_factory=dict)
    completed_checkpoints: Mapping[str, int] = field(default_factory=dict)  # by format
    completed_bytes: Mapping[str, int] = field(default_factory=dict)
    damaged_checkpoints: Mapping[str, int] = field(default_factory=dict)
    save_seconds: Distribution = field(default_factory=lambda: Distribution.empty(SAVE_BOUNDS))
    interval_seconds: Distribution = field(default_factory=lambda: Distribution.empty(INTERVAL_BOUNDS))
