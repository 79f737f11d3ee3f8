"""Tells once when something begins to fail, and once when it has worked again for a while."""

import time
from collections.abc import Callable

CALM_SECONDS = 30.0  # without a failure, after which it counts as working: until then it may fail again


class Outage:
    """An outage of a database or the like; all times are of the monotonic clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_at: float | None = None
        self._failed_at = 0.0

    @property
    def is_on(self) -> bool:
        """Whether it failed within the last CALM_SECONDS, or has not worked since."""
        return self._began_at is not None

    def note_failure(self) -> bool:
        """Note that it failed just now; return whether the outage begins with that."""
        self._failed_at = self._clock()
        if self._began_at is not None:
            return False
        self._began_at = self._failed_at
        return True

    def note_success(self) -> float | None:
        """Note that it worked just now; return how many seconds the outage took if that is its end."""
        if self._began_at is None or self._clock() - self._failed_at < CALM_SECONDS:
            return None
        seconds, self._began_at = self._failed_at - self._began_at, None
        return seconds
