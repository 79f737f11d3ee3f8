"""Counts how often jobs of a size are interrupted, limited per user to what is plausible for others.

Interruptions can be caused on purpose: thousands of short jobs that their owner's other jobs preempt would make ckptd
advise everybody to save every minute. So the interruptions of one owner count for others only as far as the rates of
the owners with fewer interruptions make them plausible, even if several owners cooperate.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from ckptd.core.forecast.optimum import CALM
from ckptd.core.model import InterruptionTally

LIKELY = 10.0  # times the rate of those that were broken off more rarely, with one in CALM more
Owner = int | None  # a uid; None: nobody knows whose


class InterruptionTallies:
    """What is known of jobs of one size, by owner."""

    def __init__(self, by_owner: Mapping[Owner, InterruptionTally]) -> None:
        self._by_owner = by_owner
        self._observed = sum((each.observed for each in by_owner.values()), timedelta(0))
        self._likely = dict(_count_likely(by_owner))
        self._total = sum(self._likely.values())

    def of(self, uid: int) -> InterruptionTally:
        """Return what counts for an owner's jobs: all of their own, and of others' what is likely."""
        own = self._by_owner.get(uid)
        count = self._total + (own.interruption_count - self._likely[uid] if own else 0)
        return InterruptionTally(count, self._observed)


def _count_likely(by_owner: Mapping[Owner, InterruptionTally]) -> Iterator[tuple[Owner, int]]:
    count, observed = 0, CALM
    for owner, own in sorted(by_owner.items(), key=lambda each: _rate(each[1])):
        likely = own.interruption_count
        if owner is not None:
            likely = min(likely, 1 + int(LIKELY * (count + 1) * (own.observed / observed)))
            count, observed = count + likely, observed + own.observed
        yield owner, likely


def _rate(tally: InterruptionTally) -> float:
    return tally.interruption_count / max(tally.observed.total_seconds(), 1.0)
