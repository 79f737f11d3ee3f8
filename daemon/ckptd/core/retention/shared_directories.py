"""Finds runs with the same directory, or one inside the other: the owner of checkpoints there is then ambiguous.

Anybody can name any directory in a comment. Another user's run therefore counts only if ckptd saw one of its jobs write
there. If it only named the directory, it has no effect on the owner's checkpoints.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping

from ckptd.core.model import RunKey, RunRecord


def is_writing(history: RunRecord) -> bool:
    """Whether ckptd saw a job of the run write a present checkpoint of its owner, or a job may still write one."""
    is_open = any(attempt.ended_at is None for attempt in history.attempts)
    return any(
        each.attempt is not None
        and history.key.uid in each.checkpoint.owner_uids
        and (is_open or each.deleted_at is None)
        for each in history.checkpoints
    )


class SharedDirectories:
    """The directories of all runs, each with whether ckptd saw a job of the run write there."""

    def __init__(self, runs: Mapping[RunKey, bool]) -> None:
        self._runs = runs
        self._writers = Counter(key.directory for key, is_written in runs.items() if is_written)
        self._named = Counter((key.uid, key.directory) for key, is_written in runs.items() if not is_written)
        own: dict[int, list[str]] = defaultdict(list)
        for uid, directory in self._named:
            own[uid].append(directory)
        self._sorted_writers = sorted(self._writers)
        self._sorted_own = {uid: sorted(directories) for uid, directories in own.items()}

    def is_shared(self, key: RunKey) -> bool:
        """Whether another run has the same directory."""
        count = self._writers[key.directory] + self._named[key.uid, key.directory]
        return count > (key in self._runs)

    def list_nested(self, key: RunKey) -> tuple[str, ...]:
        """Return the directories of other runs inside a run's."""
        places = (self._sorted_writers, self._sorted_own.get(key.uid, []))
        return tuple(each for known in places for each in _list_below(key.directory, known))


def _list_below(directory: str, known: list[str]) -> list[str]:
    prefix = directory + "/"
    start = end = bisect_right(known, prefix)
    while end < len(known) and known[end].startswith(prefix):
        end += 1
    return known[start:end]
