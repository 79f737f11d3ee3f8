"""How a run saves, as `cadence` measures it."""

from dataclasses import dataclass
from datetime import timedelta

ASSUMED_SPREAD = 0.15  # of the interval, where only one is known


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveCadence:
    """How a run saves, as measured. None: not known yet."""

    interval: timedelta | None  # median time between completions within one attempt, since it changed last
    interval_count: int
    save_time: timedelta | None  # from the first byte until complete, of saves that scans saw being written
    longest_recent: timedelta | None = None  # the longest of the newest intervals
    least_save_time: timedelta | None = None  # median over all saves; one that no scan saw being written counts as 0
    unseen_time: timedelta | None = None  # usual upper bound from the start of a save until a scan sees it
    interval_spread: timedelta | None = None  # standard deviation, estimated from the median absolute deviation
    time_to_first: timedelta | None = None  # median from the start of an attempt to its first completion
    save_count: int = 0
    seen_save_count: int = 0  # number of saves that `save_time` was measured from
    size_bytes: int | None = None  # of the newest save
    growth_bytes: int | None = None  # median change of size from one save to the next
    time_per_epoch: timedelta | None = None
    time_per_step: timedelta | None = None

    @property
    def step_interval(self) -> timedelta | None:
        """The interval; before the second save, an estimate from the time to the first one."""
        return self.interval or self.time_to_first

    @property
    def spread(self) -> timedelta:
        """The interval's spread; with few known intervals an assumed one, smaller with each of them."""
        assumed = (self.step_interval or timedelta(0)) * ASSUMED_SPREAD / max(self.interval_count, 1)
        return max(assumed, self.interval_spread or timedelta(0))
