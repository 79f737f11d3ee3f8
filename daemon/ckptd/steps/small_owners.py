"""Scans again the directories of many owners in one task, where each has few of them and nothing else is to be asked.

With a task for each, on a cluster of thousands of users, threads and transactions are most of what scans cost the main
process. The agent still has a child for each owner: one that does not answer delays no other, because answers are
recorded as they come.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import Scan
from ckptd.steps import declared_locations, named_links, search_again
from ckptd.steps.file_system_turns import FileSystemTurns
from ckptd.steps.parts import Parts
from ckptd.steps.record_scans import is_unchanged, rescan_owners
from ckptd.steps.snapshots import ScanProgress
from ckptd.steps.state import State

FEW = 5  # directories of one owner
AT_ONCE = 50  # directories in one task


class OwnerTurn(NamedTuple):
    """The scan of some directories of one owner, whose other scans wait until it ends."""

    uid: int
    lock: threading.Lock  # held
    taken: frozenset[str]  # places on file systems
    due: list[WatchedRun]

    def end(self, state: State) -> None:
        """Let other scans of the owner begin."""
        state.own(FileSystemTurns, FileSystemTurns).end(self.taken)
        self.lock.release()


def is_small(parts: Parts, state: State, due: Collection[WatchedRun], now: datetime) -> bool:
    """Whether an owner's few directories are only to be scanned again, and the last scans did not fail."""
    return (
        len(due) <= FEW
        and all(each.key.is_located and isinstance(each.last, Scan) for each in due)
        and not declared_locations.must_ask(state, due, now)
        and not search_again.must_search(state, due, now)
        and not named_links.must_ask(parts, state, due, now)
    )


def form_groups(turns: Iterable[OwnerTurn]) -> Iterator[list[OwnerTurn]]:
    """Yield the turns of each task."""
    group: list[OwnerTurn] = []
    for turn in turns:
        if sum(len(each.due) for each in group) + len(turn.due) > AT_ONCE:
            yield group
            group = []
        group.append(turn)
    if group:
        yield group


def scan_together(
    parts: Parts, state: State, turns: Sequence[OwnerTurn], now: datetime, scan_alone: Callable[[OwnerTurn], None]
) -> None:
    """Scan again; owners with changes go on alone. At the end, all turns have ended or went on."""
    left = {turn.uid: turn for turn in turns}
    try:
        for found in rescan_owners(parts, state, [each for turn in turns for each in turn.due], now):
            for uid in {key.uid for key in found}:
                turn = left.pop(uid)
                changed = [each for each in turn.due if found[each.key] is None]
                if changed:
                    scan_alone(turn._replace(due=changed))
                else:
                    turn.end(state)
                scans = [(each, scan) for each in turn.due if (scan := found[each.key]) is not None]
                if not all(is_unchanged(each, scan) for each, scan in scans):
                    state.decision_due.set()
            state.change(ScanProgress, lambda progress: replace(progress, scanned_at=now))
    except Exception:  # also one that nobody expects, or it would be logged each second
        state.watchlist.postpone([each.key for turn in left.values() for each in turn.due], now)
        raise
    finally:
        for turn in left.values():
            turn.end(state)
