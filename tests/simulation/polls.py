"""When a watch looks at the queue and at directories, and which looks at the queue fail.

Time is counted in ticks: one look at the queue, and at each directory, every five minutes.
"""

from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import ceil
from random import Random

from simulation.run_truth import HOUR, MINUTE

BEGINNING = datetime(2026, 1, 5, tzinfo=UTC)
TICK = 5 * MINUTE
FAILED_SHARE = 0.02
BETWEEN_OUTAGES = 3 * 86400.0
MAX_AGE = timedelta(minutes=15)  # of a look at the queue that is judged by


def instant(moment: float) -> datetime:
    return BEGINNING + timedelta(seconds=moment)


def at_tick(tick: int) -> datetime:
    return instant(tick * TICK)


def first_tick(moment: float) -> int:
    """Return the first tick that is not before a moment."""
    return max(ceil(moment / TICK), 1)


@dataclass
class Polls:
    """The looks at the queue from the world's beginning to its end."""

    outages: list[tuple[float, float]]
    good: list[int]  # ticks whose look at the queue was answered
    last_tick: int

    def latest(self, tick: int) -> int | None:
        """Return the tick of the latest look that was answered."""
        place = bisect_left(self.good, tick + 1)
        return self.good[place - 1] if place else None

    def following(self, tick: int) -> int | None:
        """Return the first tick from this one on whose look was answered."""
        place = bisect_left(self.good, tick)
        return self.good[place] if place < len(self.good) else None

    def list_turns(self) -> list[int]:
        """Return the ticks at which the latest look becomes too old to judge by, and at which it no longer is."""
        kept = int(MAX_AGE.total_seconds() // TICK)
        gaps = [(earlier, later) for earlier, later in pairwise([0, *self.good]) if later - earlier > kept + 1]
        return [tick for earlier, later in gaps for tick in (earlier + kept + 1, later)]


def plan_polls(runs, seed: int) -> Polls:
    chance = Random(seed)
    end = max(run.end for run in runs) + HOUR
    outages = [(at, at + chance.uniform(1, 3) * HOUR) for at in _spread(chance, end, BETWEEN_OUTAGES)]
    last_tick = first_tick(end) - 1
    good = []
    for tick in range(1, last_tick + 1):
        is_out = any(begin <= tick * TICK < until for begin, until in outages)
        if not (is_out or chance.random() < FAILED_SHARE):
            good.append(tick)
    return Polls(outages, good, last_tick)


def _spread(chance, end, mean):
    at = chance.expovariate(1 / mean)
    while at < end:
        yield at
        at += chance.expovariate(1 / mean)
