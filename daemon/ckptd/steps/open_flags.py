"""The open flags as the database has them, by run, so that a decision about a few runs reads and compares few."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Flag, RunKey


class OpenFlags:
    """Open flags, oldest first. Owned by the step `decide`, which alone opens and resolves flags."""

    def __init__(self, flags: Iterable[Flag] = ()) -> None:
        self._by_id: dict[int | None, Flag] = {flag.flag_id: flag for flag in flags}
        self._ids: dict[RunKey, set[int | None]] = defaultdict(set)
        for flag in self._by_id.values():
            self._ids[flag.finding.run].add(flag.flag_id)

    def read_again(self, flags: Iterable[Flag]) -> "OpenFlags":
        """Return the open flags as the database has them now; those that did not change are the same objects.

        What was published of them before would otherwise keep a second and a third copy in memory.
        """
        known = self._by_id
        return OpenFlags(before if (before := known.get(flag.flag_id)) == flag else flag for flag in flags)

    @property
    def all(self) -> tuple[Flag, ...]:
        return tuple(self._by_id.values())

    @property
    def by_id(self) -> Mapping[int | None, Flag]:
        return self._by_id

    @property
    def runs(self) -> Collection[RunKey]:
        return self._ids.keys()

    def of_run(self, run: RunKey) -> tuple[Flag, ...]:
        """Return the open flags of one run, oldest first."""
        return tuple(self._by_id[flag_id] for flag_id in sorted(self._ids.get(run, ()), key=lambda each: each or 0))

    def of_runs(self, runs: Iterable[RunKey]) -> tuple[Flag, ...]:
        """Return the open flags of some runs, oldest first."""
        found = [flag for run in runs for flag in self.of_run(run)]
        return tuple(sorted(found, key=lambda flag: (flag.opened_at, flag.flag_id or 0)))

    def record(self, changes: FlagChanges, opened: Iterable[Flag]) -> None:
        """Take over what was recorded; `opened` are the opened flags with their numbers."""
        for flag in (*changes.worsened, *changes.updated):
            self._by_id[flag.flag_id] = flag
        for flag in changes.resolved:
            del self._by_id[flag.flag_id]
            ids = self._ids[flag.finding.run]
            ids.discard(flag.flag_id)
            if not ids:
                del self._ids[flag.finding.run]
        for flag in opened:
            self._by_id[flag.flag_id] = flag
            self._ids[flag.finding.run].add(flag.flag_id)
