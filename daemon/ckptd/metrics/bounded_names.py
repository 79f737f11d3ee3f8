"""Which names have series of their own where a cluster may have any number of them."""

from collections.abc import Mapping


class Places:
    """Places for the heaviest names. Who has one keeps it, so that no counter falls when another outgrows it."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._named: set[str] = set()

    def give(self, weights: Mapping[str, float]) -> frozenset[str]:
        """Return the names that have a place, after those that are free went to the heaviest newcomers."""
        free = self._count - len(self._named)
        self._named.update(heaviest({name: weights[name] for name in weights.keys() - self._named}, free))
        return frozenset(self._named)


def heaviest(weights: Mapping[str, float], count: int) -> frozenset[str]:
    """Return so many names of the greatest weight, those of equal weight in their order."""
    return frozenset(sorted(weights, key=lambda name: (-weights[name], name))[:count])
