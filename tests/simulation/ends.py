"""What has ended on the made-up cluster, as looks at the queue tell it: rules ask how often work is broken off."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta

from ckptd.core.runs.observations import EndTally
from simulation.queue import QueueLook


class Ends:
    """Counts of ended attempts by their size and by the tick at which they were known."""

    def __init__(self, looks: Iterable[dict[int, QueueLook]]):
        known = defaultdict(list)
        for by_tick in looks:
            for tick, look in by_tick.items():
                for attempt in look.ended:
                    known[attempt.node_count].append((tick, attempt))
        self._by_size = {size: _sum_up(entries) for size, entries in known.items()}

    def known_at(self, tick: int, node_count: int) -> tuple[EndTally, ...]:
        ticks, tallies = self._by_size.get(node_count, ((), ()))
        place = bisect_right(ticks, tick)
        return tallies[place - 1] if place else ()


def _sum_up(entries):
    """Return the ticks at which the counts changed, and what they were from then on."""
    counts, ticks, tallies = {}, [], []
    for tick, attempt in sorted(entries, key=lambda entry: entry[0]):
        name = attempt.partition, attempt.cause
        number, observed = counts.get(name, (0, timedelta(0)))
        ran = int(attempt.ended_at.timestamp()) - int(attempt.started_at.timestamp())
        counts[name] = number + 1, observed + timedelta(seconds=ran)
        ticks.append(tick)
        tallies.append(tuple(EndTally(attempt.node_count, *name, *count) for name, count in counts.items()))
    return ticks, tallies
