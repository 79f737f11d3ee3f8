"""Histograms with a few fixed bounds."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Self


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """Counts of values by upper bound, the last beyond all bounds, and the sum of the values."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float = 0.0

    @classmethod
    def empty(cls, bounds: tuple[float, ...]) -> Self:
        """Return a distribution of nothing."""
        return cls(bounds=bounds, counts=(0,) * (len(bounds) + 1))

    def plus(self, values: Iterable[float]) -> Self:
        """Return this distribution with more values; a value equal to a bound counts in its bucket."""
        counts, total = list(self.counts), self.total
        for value in values:
            counts[bisect_left(self.bounds, value)] += 1
            total += value
        return replace(self, counts=tuple(counts), total=total)

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, int]]:
        """Return each bound, as Prometheus writes it, with the number of values up to it."""
        names = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        return list(zip(names, accumulate(self.counts), strict=True))
