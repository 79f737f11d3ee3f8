"""Which runs are due for a look, and when again: sooner while something is being written, later after trouble."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from ckptd.core.model import CheckpointState, RunKey, Scan, Unknown

MIN_GAP = timedelta(seconds=2)  # between two looks at one directory, however often it changes
WRITING_GAP = timedelta(seconds=10)  # while a save is going on
POSTPONED_GAP = timedelta(seconds=10)  # while the database does not answer
LAST_TRIES = 4  # of a last look that could not be made: after a long trouble a file system may take its time
MAX_TROUBLE_GAP = timedelta(minutes=30)


@dataclass(frozen=True, kw_only=True, slots=True)
class Watched:
    """One run that is looked at as long as a job of it is in the queue, and once after."""

    key: RunKey
    due_at: datetime
    looked_at: datetime | None = None  # the last look that saw anything
    trouble_count: int = 0
    last: Scan | Unknown | None = None  # without its checkpoints: the record has them
    is_last_look: bool = False  # its jobs have ended: one more look, then it is dropped

    @property
    def is_unknown(self) -> bool:
        """Whether the last look could not be made, or could not say where the checkpoints are."""
        is_in_doubt = not self.key.is_located and isinstance(self.last, Scan) and not self.last.is_whole
        return isinstance(self.last, Unknown) or is_in_doubt


class Watchlist:
    """The runs that are watched. It holds no clock: every call is told the time."""

    def __init__(self, interval: timedelta) -> None:
        self._interval = interval
        self._watched: dict[RunKey, Watched] = {}

    def __contains__(self, key: RunKey) -> bool:
        return key in self._watched

    def get(self, key: RunKey) -> Watched | None:
        """Return what is known of a run that is watched."""
        return self._watched.get(key)

    @property
    def all(self) -> tuple[Watched, ...]:
        return tuple(self._watched.values())

    def set_interval(self, interval: timedelta, now: datetime) -> None:
        """Scan each run at this interval from now on; one that would wait longer than that is due sooner."""
        self._interval = interval
        for key, watched in self._watched.items():
            if watched.looked_at is not None and not watched.trouble_count:
                soonest = max(now, watched.looked_at + interval)
                self._watched[key] = replace(watched, due_at=min(watched.due_at, soonest))

    def keep(self, keys: Iterable[RunKey], now: datetime) -> None:
        """Watch exactly these runs from now on; one that is no longer among them gets a last look."""
        wanted = set(keys)
        for key in wanted - self._watched.keys():
            self._watched[key] = Watched(key=key, due_at=now)
        for key in self._watched.keys() - wanted:
            watched = self._watched[key]
            if not watched.is_last_look:
                self._watched[key] = replace(watched, is_last_look=True, due_at=now)
        for key in wanted:
            if self._watched[key].is_last_look:
                self._watched[key] = replace(self._watched[key], is_last_look=False, due_at=now)

    def visit(self, keys: Iterable[RunKey], now: datetime) -> None:
        """Look once at runs whose jobs are over; those that are watched are looked at anyway."""
        for key in keys:
            if key not in self._watched:
                self._watched[key] = Watched(key=key, due_at=now, is_last_look=True)

    def postpone(self, keys: Iterable[RunKey], now: datetime) -> None:
        """Look at these runs a little later: what was found could not be recorded."""
        for key in keys:
            if watched := self._watched.get(key):
                self._watched[key] = replace(watched, due_at=now + POSTPONED_GAP)

    def hasten(self, keys: Iterable[RunKey], now: datetime) -> None:
        """Look at these runs as soon as may be: an attempt began or ended, or a file changed."""
        for key in keys:
            if watched := self._watched.get(key):
                soonest = now if watched.looked_at is None else max(now, watched.looked_at + MIN_GAP)
                self._watched[key] = replace(watched, due_at=min(watched.due_at, soonest))

    def hasten_directories(self, directories: Iterable[PurePosixPath], now: datetime) -> None:
        """Look soon at every run in one of these directories."""
        changed = {str(directory) for directory in directories}
        self.hasten([key for key in self._watched if key.directory in changed], now)

    def due(self, now: datetime, limit: int) -> dict[int, list[Watched]]:
        """Return the runs to look at now, so many of each owner, by owner; the longest overdue first."""
        farthest = now + max(self._interval, MAX_TROUBLE_GAP)  # what is due later was due before the clock was set back
        late = [each for each in self._watched.values() if each.due_at <= now or each.due_at > farthest]
        late.sort(key=lambda each: each.due_at)
        by_owner: dict[int, list[Watched]] = defaultdict(list)
        for each in late:
            if len(by_owner[each.key.uid]) < limit:
                by_owner[each.key.uid].append(each)
        return dict(by_owner)

    def looked(self, key: RunKey, found: Scan | Unknown, now: datetime) -> None:
        """Note what a look found and when the next is due."""
        watched = self._watched.get(key)
        if watched is None:
            return
        is_in_vain = isinstance(found, Unknown) and watched.trouble_count + 1 < LAST_TRIES
        if watched.is_last_look and not is_in_vain:
            del self._watched[key]
            return
        if isinstance(found, Unknown):
            trouble_count = watched.trouble_count + 1
            gap = min(self._interval * 2 ** min(trouble_count - 1, 10), MAX_TROUBLE_GAP)
            self._watched[key] = replace(watched, last=found, due_at=now + gap, trouble_count=trouble_count)
            return
        is_writing = any(each.state is CheckpointState.WRITING for each in found.checkpoints)
        gap = min(self._interval, WRITING_GAP) if is_writing else self._interval
        last = replace(found, checkpoints=())
        self._watched[key] = replace(watched, last=last, looked_at=now, due_at=now + gap, trouble_count=0)

    def move(self, old: RunKey, new: RunKey, now: datetime) -> None:
        """Watch a run under its new key: its directory became known."""
        moved = self._watched.pop(old, None)
        is_last_look = moved is not None and moved.is_last_look
        known = self._watched.get(new)
        if known is None:
            self._watched[new] = Watched(key=new, due_at=now, is_last_look=is_last_look)
        elif not is_last_look:
            self._watched[new] = replace(known, is_last_look=False)
        self.hasten([new], now)
