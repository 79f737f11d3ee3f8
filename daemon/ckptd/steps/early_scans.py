"""Scans directories a little before their turn, together with others that are due.

In a request for many directories of one owner, each costs a twentieth of what it costs alone.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from ckptd.core.discovery.scan_schedule import WatchedRun, take_turn
from ckptd.steps.small_owners import FEW
from ckptd.steps.state import State

EARLY = 1 / 4  # of the scan interval, so that a few requests take all directories of an owner


def add_early(
    state: State, due: Mapping[int, list[WatchedRun]], now: datetime, limit: int, must_wait: Callable[[str], bool]
) -> dict[int, list[WatchedRun]]:
    """Return what is due by owner, with what else these owners have to scan soon, of each what `take_turn` takes.

    If any of them has few directories, other owners' few are added. All are early once, and due together from then on.
    """
    if not due:
        return {}
    early = state.watchlist.due_early(now, EARLY, must_wait)
    together = {uid: take_turn([*now_due, *early.pop(uid, ())], limit) for uid, now_due in due.items()}
    if any(len(each) <= FEW for each in together.values()):
        together |= {uid: soon for uid, soon in early.items() if len(soon) <= FEW}
    return together
