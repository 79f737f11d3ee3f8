"""The runs that are watched, and when each is scanned next. Polls decide which, scans when."""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from ckptd.core.discovery import scan_schedule
from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import NamedLocation, RunKey, Scan, Unknown
from ckptd.core.queue import TrackedJob
from ckptd.steps.bounded_runs import BoundedRuns
from ckptd.steps.reported_directories import ReportedDirectories

POSTPONED_GAP = timedelta(seconds=10)  # after an error, as while the database does not answer


class Watchlist:
    """The watched runs. The time is an argument of every call.

    Owned by the scans. Polls set which runs to watch; backfill, pruning and the file watcher request earlier scans. It
    has its own lock, held for one call at a time; the values that it returns are immutable.
    """

    def __init__(self, interval: timedelta) -> None:
        self._lock = threading.Lock()
        self._interval = interval
        self._watched = BoundedRuns()
        self._directories: frozenset[tuple[str, int]] | None = None  # None: a run was added or removed since
        self._copies: dict[RunKey, tuple[NamedLocation, ...]] = {}  # further locations of runs
        self._reported = ReportedDirectories()
        self._elsewhere: frozenset[RunKey] = frozenset()  # runs that the daemon of another cluster scans
        self._changed: set[RunKey] = set()  # since a decision last asked

    def __contains__(self, key: RunKey) -> bool:
        return key in self._watched

    def get(self, key: RunKey) -> WatchedRun | None:
        """Return what is known of a run that is watched."""
        return self._watched.get(key)

    def copies_of(self, key: RunKey) -> tuple[NamedLocation, ...]:
        """Return the further locations of a run, as the last search found them."""
        return self._copies.get(key, ())

    def set_copies(self, key: RunKey, named: tuple[NamedLocation, ...], now: datetime) -> None:
        """Note the further locations of a run; those that can be scanned are watched as long as the run is."""
        with self._lock:
            self._changed.update(_list_copies(key, (*self._copies.get(key, ()), *named)))
            self._copies[key] = named
            if (watched := self._watched.get(key)) is not None:
                for copy in _list_copies(key, named):
                    if copy not in self._watched:
                        self._add(replace(watched, key=copy, due_at=now, observed_at=None, trouble_count=0, last=None))

    @property
    def copies(self) -> frozenset[RunKey]:
        """The further locations that are scanned, of all runs; one may be the primary location of another run."""
        with self._lock:
            return frozenset(copy for key, named in self._copies.items() for copy in _list_copies(key, named))

    @property
    def all(self) -> tuple[WatchedRun, ...]:
        with self._lock:
            return tuple(self._watched.values())

    @property
    def directories(self) -> frozenset[tuple[str, int]]:
        """The directories of the watched runs with their owners; the same object while they stay the same."""
        with self._lock:
            if self._directories is None:
                self._directories = frozenset([(key.directory, key.uid) for key in self._watched if key.is_located])
            return self._directories

    def list_named(self, keys: Iterable[RunKey]) -> tuple[WatchedRun, ...]:
        """Return those of these runs that are watched."""
        with self._lock:
            return tuple([self._watched[key] for key in keys if key in self._watched])

    def list_unsearched(self, uid: int | None = None) -> list[WatchedRun]:
        """Return the runs, of one owner or of all, whose directory nobody has searched for yet."""
        return [
            each for each in self.all if not each.key.is_located and each.last is None and uid in {None, each.key.uid}
        ]

    def set_interval(self, interval: timedelta, now: datetime) -> None:
        """Scan each run at this interval from now on; one that would wait longer than that is due sooner."""
        with self._lock:
            self._interval = interval
            for key, watched in self._watched.items():
                self._watched[key] = scan_schedule.bring_forward(watched, interval, now)

    def leave(self, elsewhere: frozenset[RunKey]) -> None:
        """Watch none of these runs, which the daemon of another cluster scans, until they are no longer among them.

        A run whose jobs here have just ended is scanned once more: the lost work of this cluster depends on it.
        """
        with self._lock:
            self._elsewhere = elsewhere
            for key in elsewhere & self._watched.keys():
                if not self._watched[key].is_last_scan:
                    self._remove(key)

    def keep_open(self, tracked: Iterable[TrackedJob], now: datetime, missed: Collection[RunKey] = ()) -> None:
        """Watch the runs that have a job in the queue, and no others; scan those that were missed once."""
        opened = {known.run for known in tracked if known.is_open and known.run}
        self.keep(opened.union(missed), now)

    def keep(self, keys: Iterable[RunKey], now: datetime) -> None:
        """Watch exactly these runs from now on; make a last scan of each run that is no longer among them."""
        with self._lock:
            wanted = self._with_copies(set(keys) - self._elsewhere) - self._elsewhere
            self._copies = {key: named for key, named in self._copies.items() if key in wanted or key in self._watched}
            for key in wanted - self._watched.keys():
                self._add(WatchedRun(key=key, due_at=now))
            for key in self._watched.keys() - wanted:
                watched = self._watched[key]
                if not watched.is_last_scan:
                    self._watched[key] = replace(watched, is_last_scan=True, ended_at=now, due_at=now, trouble_count=0)
            for key in wanted:
                if self._watched[key].is_last_scan:
                    self._watched[key] = replace(self._watched[key], is_last_scan=False, due_at=now)

    def visit(self, keys: Iterable[RunKey], now: datetime) -> None:
        """Make a last scan of runs whose jobs have ended, unless they are watched."""
        with self._lock:
            for key in self._with_copies(keys):
                if key not in self._watched:
                    self._add(WatchedRun(key=key, due_at=now, is_last_scan=True, ended_at=now))

    def _with_copies(self, keys: Iterable[RunKey]) -> set[RunKey]:
        own = set(keys)
        return own.union(*(_list_copies(key, self._copies[key]) for key in own & self._copies.keys()))

    def postpone(self, keys: Iterable[RunKey], now: datetime) -> None:
        """Scan these runs again soon, because a scan ended with an error, or its result could not be recorded."""
        with self._lock:
            for key in keys:
                if watched := self._watched.get(key):
                    self._watched[key] = replace(watched, due_at=now + POSTPONED_GAP)

    def hasten(self, keys: Iterable[RunKey], now: datetime) -> None:
        """Scan these runs as soon as possible, because an attempt started or ended."""
        with self._lock:
            self._hasten(keys, now)

    def hasten_all(self, now: datetime) -> None:
        """Scan every run as soon as possible."""
        with self._lock:
            self._hasten(list(self._watched), now)

    def hasten_directories(self, changed: Collection[str], now: datetime) -> None:
        """Scan the runs in these directories soon, and those reported before; if they are many, some wait."""
        with self._lock:
            self._reported.add(changed, now)
            for watched in self._reported.take(self._watched.values(), now):
                self._watched[watched.key] = scan_schedule.hasten_reported(watched, now)

    def _add(self, watched: WatchedRun) -> None:
        if watched.key in self._elsewhere and not watched.is_last_scan:
            return
        self._watched[watched.key] = watched
        self._changed.add(watched.key)
        self._directories = None

    def _remove(self, key: RunKey) -> WatchedRun | None:
        self._changed.add(key)
        self._directories = None
        return self._watched.pop(key, None)

    def _hasten(self, keys: Iterable[RunKey], now: datetime) -> None:
        for key in keys:
            if watched := self._watched.get(key):
                self._watched[key] = scan_schedule.hasten(watched, now)

    def due(
        self, now: datetime, limit: int, must_wait: Callable[[str], bool] = lambda _directory: False
    ) -> dict[int, list[WatchedRun]]:
        """Return the runs to scan now by owner, of each what `take_turn` takes; the longest overdue first.

        Those in directories that must wait stay due.
        """
        with self._lock:
            if not self._watched.may_be_due(self._interval, now):
                return {}
        late = scan_schedule.list_due(self.all, self._interval, now)
        if not late:
            with self._lock:
                self._watched.tighten()
        late = [each for each in late if not must_wait(each.key.directory)]
        late.sort(key=lambda each: each.due_at)
        return {uid: scan_schedule.take_turn(each, limit) for uid, each in _group_by_owner(late).items()}

    def due_early(self, now: datetime, share: float, must_wait: Callable[[str], bool]) -> dict[int, list[WatchedRun]]:
        """Return by owner the runs whose next regular scan is due within this share of the interval."""
        early = scan_schedule.list_early(self.all, self._interval, now, share)
        return _group_by_owner([each for each in early if not must_wait(each.key.directory)])

    def record_scan(self, key: RunKey, found: Scan | Unknown, now: datetime, scanned: WatchedRun | None = None) -> None:
        """Record the result of a scan and when the next one is due; `scanned` is the run as it was when it began."""
        with self._lock:
            watched = self._watched.get(key)
            if watched is None:
                return
            if (left := scan_schedule.after_scan(watched, found, self._interval, now, scanned)) is None:
                self._remove(key)
            else:
                self._watched[key] = left
                self._changed.add(key)

    def take_changed(self) -> frozenset[RunKey]:
        """Return the runs that were scanned, added or removed since the last call."""
        with self._lock:
            changed, self._changed = frozenset(self._changed), set()
            return changed

    def move(self, old: RunKey, new: RunKey, now: datetime) -> None:
        """Watch a run under its new key: its directory became known."""
        with self._lock:
            moved = self._remove(old)
            self._copies.pop(old, None)
            is_last_scan = moved is not None and moved.is_last_scan
            known = self._watched.get(new)
            if known is None:
                ended_at = moved.ended_at if moved is not None and is_last_scan else None
                self._add(WatchedRun(key=new, due_at=now, is_last_scan=is_last_scan, ended_at=ended_at))
            elif not is_last_scan:
                self._watched[new] = replace(known, is_last_scan=False)
            self._hasten([new], now)


def _group_by_owner(watched: Iterable[WatchedRun]) -> dict[int, list[WatchedRun]]:
    by_owner: dict[int, list[WatchedRun]] = defaultdict(list)
    for each in watched:
        by_owner[each.key.uid].append(each)
    return dict(by_owner)


def _list_copies(key: RunKey, named: Iterable[NamedLocation]) -> list[RunKey]:
    return [key._replace(directory=each.directory) for each in named if each.is_scanned]
