"""What a program recorded in its checkpoints of the one that it was continued from.

GROMACS counts how often it was continued. DMTCP's processes keep their ids. Hugging Face's Trainer extends the log of
what it loaded, and no two evaluations in it took the same time.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ckptd.core.runs.rotated_copies import is_previous, order_names
from ckptd.core.runs.saved_state import SavedState

_LOGGED = "+"  # begins an id that stands in a log, which a continued program extends


class Trace(NamedTuple):
    """What a checkpoint says of the one that its program was continued from."""

    evidence: dict[str, str | int | float | None]
    is_fresh: bool  # of none
    possible: list[SavedState]  # of one of these


def read(first: SavedState, there: Sequence[SavedState]) -> Trace | None:
    """Read what a checkpoint says of those that were there when its attempt started; None if it says nothing."""
    return _read_count(first, there) or _read_ids(first, there)


def _read_count(first: SavedState, there: Sequence[SavedState]) -> Trace | None:
    """Read how often the program was continued, by its own count."""
    if first.continued_count is None:
        return None
    evidence: dict[str, str | int | float | None] = {"continued_count": first.continued_count}
    possible = [each for each in there if each.continued_count == first.continued_count - 1]
    exact = [each for each in possible if each.step is not None and each.step == first.continued_from_step]
    if exact:
        evidence["continued_from_step"] = first.continued_from_step
        paths = {each.path for each in there}
        possible = [
            max(exact, key=lambda each: (not is_previous(each.path, paths), each.completed_at, *order_names(each)))
        ]
    return Trace(evidence, first.continued_count == 0, possible)


def _read_ids(first: SavedState, there: Sequence[SavedState]) -> Trace | None:
    """Read ids that a program keeps when it is continued."""
    if first.computation is None or not there:
        return None
    ids = first.computation.split()
    possible = [each for each in there if not set(ids).isdisjoint((each.computation or "").split())]
    if not possible and any(each.computation is None for each in there):
        return None  # one of these may have been loaded: nothing was logged yet
    is_fresh = not possible
    if ids[0].startswith(_LOGGED):
        possible = _list_last_logged(ids, possible)
    return Trace({"computation": min(ids)}, is_fresh, possible)


def _list_last_logged(ids: Sequence[str], states: Iterable[SavedState]) -> list[SavedState]:
    """Return the states whose log a program has extended, with the most of it: it loaded one of them."""
    found = [(ids.index(last), each) for each in states if (last := (each.computation or "").split()[-1]) in ids]
    most = max((count for count, _ in found), default=0)
    return [each for count, each in found if count == most]
