"""Selects the names that get series of their own, so that the number of series is bounded."""

from collections.abc import Mapping


class BoundedNames:
    """A fixed number of places for the heaviest names. A name keeps its place, so that no counter decreases."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._named: set[str] = set()

    def assign(self, weights: Mapping[str, float]) -> frozenset[str]:
        """Assign free places to the heaviest new names; return all names with a place."""
        free = self._count - len(self._named)
        self._named.update(heaviest({name: weights[name] for name in weights.keys() - self._named}, free))
        return frozenset(self._named)


def heaviest(weights: Mapping[str, float], count: int) -> frozenset[str]:
    """Return `count` names with the greatest weights; equal weights keep their order."""
    return frozenset(sorted(weights, key=lambda name: (-weights[name], name))[:count])
