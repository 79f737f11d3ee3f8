"""Finds the checkpoints that something names: a link, a job in the queue, or a setting of their owner.

Which references count for a run is decided in `reference_limits`; here they are only compared with its sets. The time
grows with the number of paths and of references, not with their product, whatever people have written into them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

ANY_SUFFIX = ".*"  # ends the path of a reference to a file whose name goes on with one suffix or two
MAX_REASONS = 3  # for one checkpoint: thousands of jobs may name the same one


class Reference(NamedTuple):
    """One path that something names."""

    path: str  # absolute and normalised, of a file or directory; or a bare name or relative tail where inexact
    reason: str  # one clause for people: "job 4711 names it in its script", "best.pt is a link to it"
    is_exact: bool = True


class ReferenceCounts(NamedTuple):
    """How many checkpoints of a run one reference names: exactly or by one of their files, and by a directory above."""

    direct_count: int
    below_count: int


def match(references: Sequence[Reference], paths: Sequence[Sequence[str]]) -> Iterator[tuple[int, str]]:
    """Yield index and reason of each set that a reference names; `paths` has for each set its own path and its files.

    All paths are absolute and of one run. A directory stands for the sets below it. An exact reference to a directory
    that all of them are below, as the run's own is, names none of them: jobs name it because they save there.
    """
    hits, below = _find_all(references, paths)
    for index, found in enumerate(hits):
        named = (number for number, is_below in found.items() if not (is_below and _is_around(number, below, paths)))
        reasons = dict.fromkeys(references[number.place].reason for number in named)
        yield from ((index, reason) for reason in list(reasons)[:MAX_REASONS])


def measure(references: Sequence[Reference], paths: Sequence[Sequence[str]]) -> list[ReferenceCounts]:
    """Return the number of sets that each reference names."""
    keys = [(reference.path, reference.is_exact) for reference in references]
    hits, below = _find_all([Reference(path, "", is_exact) for path, is_exact in dict.fromkeys(keys)], paths)
    direct = Counter(number.path for found in hits for number, is_below in found.items() if not is_below)
    above = Counter({number.path: count for number, count in below.items()})
    return [ReferenceCounts(direct[key], above[key]) for key in keys]


class _Number(NamedTuple):
    """One distinct reference: what it names, and the place of one that says so."""

    path: tuple[str, bool]
    place: int


def _is_around(number: _Number, below: Counter[_Number], paths: Sequence[Sequence[str]]) -> bool:
    return number.path[1] and len(paths) > 1 and below[number] == len(paths)


def _find_all(
    references: Sequence[Reference], paths: Sequence[Sequence[str]]
) -> tuple[list[dict[_Number, bool]], Counter[_Number]]:
    """Return for each set what names it, with whether only as a directory above, and how many sets each is above."""
    index = _Index(references)
    below: Counter[_Number] = Counter()
    hits: list[dict[_Number, bool]] = []
    for own in paths if index.names else ():
        found: dict[_Number, bool] = {}
        parents = set()
        for path in own:
            parent, _, name = path.rpartition("/")
            parents.add(parent)
            if name in index.names:
                found.update(dict.fromkeys(index.find(path), False))
            for stem in _list_stems(name) if index.is_without_suffixes else ():
                if stem in index.names:
                    found.update(dict.fromkeys(index.find(f"{parent}/{stem}"), False))
        for number in {number for parent in parents for number in index.find_above(parent)}:
            # the directory that is the set itself is above its files as well
            if found.setdefault(number, True):
                below[number] += 1
        hits.append(dict(sorted(found.items(), key=_by_place)) if len(found) > 1 else found)
    return hits, below


def _list_stems(name: str) -> Iterator[str]:
    """Yield a file's name without its last suffix and without its last two, as references without suffix end."""
    for _ in range(2):
        name = name.rpartition(".")[0]
        if name:
            yield name + ANY_SUFFIX


def _by_place(hit: tuple[_Number, bool]) -> int:
    return hit[0].place


class _Index:
    """References indexed by path."""

    def __init__(self, references: Sequence[Reference]) -> None:
        self.names: set[str] = set()  # the last ones of their paths
        self.is_without_suffixes = False  # whether there is a reference that leaves a suffix out
        self._whole: dict[str, list[_Number]] = {}  # by absolute path
        self._tails: dict[str, list[_Number]] = {}  # by the end of a path
        self._lengths: dict[str, set[int]] = {}  # how many names such ends have, by the last one
        self._above: dict[str, tuple[_Number, ...]] = {}
        counts: Counter[tuple[str, bool]] = Counter()
        for place, reference in enumerate(references):
            key = (reference.path, reference.is_exact)
            counts[key] += 1
            if counts[key] <= MAX_REASONS and reference.path:
                self._add(reference.path, _Number(key, place))

    def _add(self, path: str, number: _Number) -> None:
        name = path[path.rfind("/") + 1 :]
        self.names.add(name)
        self.is_without_suffixes |= name.endswith(ANY_SUFFIX)
        if path.startswith("/"):
            self._whole.setdefault(path, []).append(number)
        else:
            self._tails.setdefault(path, []).append(number)
            self._lengths.setdefault(name, set()).add(path.count("/") + 1)

    def find(self, path: str) -> list[_Number]:
        """Return the references to exactly this path."""
        found = self._whole.get(path, [])
        for length in self._lengths.get(path[path.rfind("/") + 1 :], ()):
            names = path.rsplit("/", length)
            if len(names) > length:  # else it would begin before the path does
                found = found + self._tails.get("/".join(names[1:]), [])
        return found

    def find_above(self, directory: str) -> tuple[_Number, ...]:
        """Return the references to a directory or to any above it; "" is the root."""
        waiting: list[str] = []
        while directory and directory not in self._above:
            waiting.append(directory)
            directory = directory[: directory.rfind("/")]
        known = self._above[directory] if directory else tuple(self._whole.get("/", ()))
        for each in reversed(waiting):
            known = self._above[each] = (*known, *self.find(each))
        return known
