"""Limits how much of a trash is processed at a time, so that a user with a full trash delays nobody else."""

import os
import time
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from math import inf
from typing import NamedTuple

MAX_ENTRIES = 20_000  # names of one trash that are read


class TurnLimits(NamedTuple):
    """The limits of one turn; the first one that is reached ends it. At least one name is processed."""

    after: str = ""  # the last name of the turn before
    limit: int = MAX_ENTRIES  # names
    seconds: float = inf


WHOLE = TurnLimits()


class TurnProgress:
    """Yields the names of one turn in order, and reports how far it got."""

    def __init__(self, names: Iterable[str], turn: TurnLimits) -> None:
        self._names = [name for name in names if name > turn.after]
        self._turn = turn
        self.reached: str | None = None  # the last name of this turn; None: there are no more

    def __iter__(self) -> Iterator[str]:
        until = time.monotonic() + self._turn.seconds
        for number, name in enumerate(self._names, 1):
            yield name
            if number < len(self._names) and (number >= self._turn.limit or time.monotonic() >= until):
                self.reached = name
                return
        self.reached = None


def list_names(trash: int, known: Collection[str] = ()) -> list[str]:
    """Return the names in an open trash that are not known, in order, up to a limit."""
    with os.scandir(trash) as found:
        return sorted(islice((each.name for each in found if each.name not in known), MAX_ENTRIES))
