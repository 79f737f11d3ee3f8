"""The watched runs with the bounds of their times: who asks every second what is due need not look at each run."""

from datetime import UTC, datetime, timedelta

from ckptd.core.discovery.scan_schedule import MAX_TROUBLE_GAP, MIN_GAP, WatchedRun
from ckptd.core.model import RunKey

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class BoundedRuns(dict[RunKey, WatchedRun]):
    """Change it by single assignments and `pop` only, and use it under one lock."""

    def __init__(self) -> None:
        super().__init__()
        self.tighten()

    def __setitem__(self, key: RunKey, watched: WatchedRun) -> None:
        super().__setitem__(key, watched)
        self._include(watched)

    def may_be_due(self, interval: timedelta, now: datetime) -> bool:
        """Return False only if `scan_schedule.list_due` finds no run, also after the clock was set back."""
        is_too_late = self._furthest > now + max(interval, MAX_TROUBLE_GAP)
        return self._soonest <= now or is_too_late or self._newest > now + MIN_GAP

    def tighten(self) -> None:
        """Forget the bounds of runs that were replaced or removed; worth its time if none was due."""
        self._soonest, self._furthest = _LAST, _FIRST  # of when runs are due
        self._newest = _FIRST  # of when runs were scanned
        for watched in self.values():
            self._include(watched)

    def _include(self, watched: WatchedRun) -> None:
        self._soonest = min(self._soonest, watched.due_at)
        self._furthest = max(self._furthest, watched.due_at)
        self._newest = max(self._newest, watched.observed_at or _FIRST)
