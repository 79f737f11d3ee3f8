"""Named choices from a seed: a layout is what was chosen, so that it can be made again, and made simpler.

Not hypothesis: it remembers every example of a run to avoid repeats, which 200,000 layouts do not need and pay for
several times over, and its shrinker knows positions in a stream where names say what each choice decides. Here a
choice that is overridden leaves all others as they were, so that a counterexample is simplified one trait at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b


@dataclass
class Choices:
    """Picks by name, the same for the same seed. The first option of each is the simplest.

    `fixed` holds indexes of options by name, which count instead of the seed's. With `is_simple` whatever is not
    fixed is the simplest.
    """

    seed: str
    fixed: Mapping[str, int] = field(default_factory=dict)
    is_simple: bool = False
    made: dict[str, int] = field(default_factory=dict)
    shown: dict[str, object] = field(default_factory=dict)

    def pick(self, name, *options):
        """Return one of the options; where some are more frequent, they are given several times, behind the first."""
        index = self._index(name, len(options))
        self.shown[name] = options[index]
        return options[index]

    def flip(self, name, probability):
        """Return whether something happens, which is the less simple of both."""
        index = self._fixed(name, 2)
        if index is None:
            index = int(self._draw(name) < probability * 2**64)
        self.made[name], self.shown[name] = index, bool(index)
        return bool(index)

    def between(self, name, low, high):
        """Return a whole number, the lowest being the simplest."""
        return low + self._index(name, high - low + 1, lambda index: low + index)

    def _index(self, name, count, show=None):
        index = self._fixed(name, count)
        if index is None:
            index = self._draw(name) % count
        self.made[name] = index
        if show:
            self.shown[name] = show(index)
        return index

    def _fixed(self, name, count):
        index = self.fixed.get(name, 0 if self.is_simple else None)
        return 0 if index is not None and index >= count else index

    def _draw(self, name):
        """Return a number below 2**64."""
        return int.from_bytes(blake2b(f"{self.seed}/{name}".encode(), digest_size=8).digest())

    def describe(self):
        """Return what was chosen, the simplest options left out."""
        return ", ".join(f"{name}={self.shown[name]!r}" for name, index in self.made.items() if index)


def simplify(choices, fails, limit=300):
    """Return simpler choices for which `fails` still holds; `fails` takes Choices and is asked at most so often."""
    best, asked = choices, 1
    is_better = fails(best)  # which also makes the choices
    while is_better and asked < limit:
        is_better = False
        for name, index in list(best.made.items()):
            for lower in sorted({0, index // 2, index - 1} - {index, -1}):
                asked += 1
                tried = Choices(best.seed, {**best.made, name: lower}, is_simple=True)
                if fails(tried) and sum(tried.made.values()) < sum(best.made.values()):
                    best, is_better = tried, True
                    break
    return best
