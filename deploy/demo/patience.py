"""How long to wait on a host that others use, too.

Each bound is given for an idle host and grows with the load. To wait costs nothing where what is waited for comes.
"""

import os
import time


def allow(seconds: float) -> float:
    """Return so many seconds on an idle host, more while more processes want to run than it has processors."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


class Deadline:
    """Tells when a bound has passed; a load that rises meanwhile moves it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began = time.monotonic()

    def has_passed(self) -> bool:
        """Whether it is later than the bound as of now."""
        return self.elapsed > allow(self._seconds)

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began
