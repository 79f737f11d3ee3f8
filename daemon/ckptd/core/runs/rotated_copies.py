"""Recognise checkpoints that are older than where or when they stand: backups of a program, and what was put back.

GROMACS writes `state.cpt` and then copies the one before it to `state_prev.cpt`, so that the younger file holds the
older state. Such a copy is no save of its own. It was saved when the original was, and may be loaded since it appeared.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from ckptd.core.model import RecordedCheckpoint
from ckptd.core.runs.saved_state import SavedState

AT_ONCE = timedelta(seconds=10)  # after the save that replaced the original
_PREVIOUS = re.compile(r"_prev(?=\.[^./]+\Z)")
_BACKUP_NAME = re.compile(r"(?:^|[^a-z])(?:prev|previous|old|bak|back|backup)(?:$|[^a-z])", re.IGNORECASE)


def is_previous(path: str, complete: Collection[str]) -> bool:
    """Whether `path` is the `NAME_prev.SUFFIX` of a complete checkpoint: made after it, it holds the state before."""
    original = _PREVIOUS.sub("", path)
    return original != path and original in complete


def order_names(state: SavedState) -> tuple[bool, bool, datetime, str]:
    """Order the files that had the same state at some time: the one that a program loads, and keeps, is the last.

    mdrun writes `state_step425.cpt` and renames it to `state.cpt`: a scan may see both, and only the latter stays.
    NAMD renames what it has saved before to `NAME.old` with each save.
    """
    is_backup = bool(_BACKUP_NAME.search(state.path.rpartition("/")[2]))
    gone_at = state.deleted_at
    return not is_backup, gone_at is None, gone_at or state.completed_at, state.path


def leave_out_previous(records: Iterable[RecordedCheckpoint]) -> list[RecordedCheckpoint]:
    """Return complete checkpoints, in their order, without those that hold the state before another one of them."""
    found = [*records]
    if not any(_PREVIOUS.search(each.checkpoint.path.name) for each in found):
        return found
    paths = {str(each.checkpoint.path) for each in found}
    return [each for each in found if not is_previous(str(each.checkpoint.path), paths)]


def date_by_original(states: Iterable[SavedState]) -> list[SavedState]:
    """Return the states by when they were complete, each copy dated and credited as the state that it is a copy of."""
    ordered = sorted(states, key=lambda each: (each.completed_at, each.path))
    by_path: dict[str, list[SavedState]] = {}
    result: list[SavedState] = []
    recent: deque[SavedState] = deque()
    for each in ordered:
        while recent and each.completed_at - recent[0].completed_at > AT_ONCE:
            recent.popleft()
        result.append(_date(each, recent, by_path))
        recent.append(each)
        by_path.setdefault(each.path, []).append(each)
    return sorted(result, key=lambda each: (each.completed_at, each.path))


def date_put_back(states: Iterable[SavedState]) -> list[SavedState]:
    """Return the states; one that stands where a later one had been appeared when that was gone.

    A job whose fast disk is empty copies an older checkpoint back; so does a person who wants that one.
    """
    latest: dict[str, SavedState] = {}
    result: list[SavedState] = []
    for each in sorted(states, key=lambda state: (state.deleted_at is None, state.deleted_at or state.completed_at)):
        later = latest.get(each.path)
        if later is None or each.completed_at >= later.completed_at:
            latest[each.path] = each
            result.append(each)
        else:
            result.append(replace(each, appeared_at=each.appeared_at or later.deleted_at))
    return result


def _date(state: SavedState, recent: deque[SavedState], by_path: dict[str, list[SavedState]]) -> SavedState:
    if state.appeared_at is not None:
        return state
    for newer in reversed(recent):
        if newer.path == state.path or not _is_behind(state, newer):
            continue
        before = [each for each in by_path[newer.path] if each.completed_at < newer.completed_at]
        original = next((each for each in reversed(before) if _progress(each) == _progress(state)), None)
        if original is not None:
            return replace(
                state,
                completed_at=original.completed_at,
                attempt=original.attempt,
                appeared_at=state.completed_at,
            )
        if _BACKUP_NAME.search(state.path.rpartition("/")[2]):
            return replace(state, appeared_at=state.completed_at)
    return state


def _is_behind(state: SavedState, newer: SavedState) -> bool:
    if state.step is not None and newer.step is not None and state.step < newer.step:
        return True
    return state.epoch is not None and newer.epoch is not None and state.epoch < newer.epoch


def _progress(state: SavedState) -> tuple[float | None, float | None]:
    return state.step, state.epoch
