"""How a run saves, as `cadence` measures it."""

from dataclasses import dataclass
from datetime import timedelta

ASSUMED_SPREAD = 0.15  # of the interval, where only one is known


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveCadence:
    """How a run saves, as measured. None: not known yet."""

    interval: timedelta | None  # median time between completions within one attempt
    interval_count: int
    save_time: timedelta | None  # from the first byte to complete, of saves that were seen being written
    least_save_time: timedelta | None = None  # median over all saves, one that nobody saw being written taking no time
    unseen_time: timedelta | None = None  # for which saves go on before a look sees them, at most as a rule
    interval_spread: timedelta | None = None  # a standard deviation, told from the median absolute deviation
    time_to_first: timedelta | None = None  # median from the start of an attempt to its first completion
    save_count: int = 0
    seen_save_count: int = 0  # those that `save_time` was measured of
    size_bytes: int | None = None  # of the newest save
    growth_bytes: int | None = None  # median change of size from one save to the next
    time_per_epoch: timedelta | None = None
    time_per_step: timedelta | None = None

    @property
    def step_interval(self) -> timedelta | None:
        """The interval, or what the first save of an attempt lets expect of it."""
        return self.interval or self.time_to_first

    @property
    def spread(self) -> timedelta:
        """The interval's spread; while few intervals are known, an assumption that each of them makes smaller."""
        assumed = (self.step_interval or timedelta(0)) * ASSUMED_SPREAD / max(self.interval_count, 1)
        return max(assumed, self.interval_spread or timedelta(0))
