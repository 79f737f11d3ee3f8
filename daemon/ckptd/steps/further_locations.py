"""The further locations of the runs that are evaluated, with what was last found in each."""

from collections.abc import Mapping
from dataclasses import replace

from ckptd.core.model import CopyLocation, RunKey, RunRecord
from ckptd.steps.parts import Parts
from ckptd.steps.state import State


def read_locations(
    parts: Parts, state: State, wanted: Mapping[RunKey, RunRecord | None]
) -> dict[RunKey, tuple[CopyLocation, ...]]:
    """Return the further locations of runs, read again for those that have any; `wanted` holds the earlier ones."""
    named = [key for key in wanted if state.watchlist.copies_of(key)]
    found = {key: _list_locations(before) for key, before in wanted.items() if before is not None}
    for record in parts.store.histories.read(parts.cluster, named) if named else ():
        found[record.key] = tuple(_with_last_scan(state, record.key, each) for each in _list_locations(record))
    return found


def _list_locations(record: RunRecord) -> tuple[CopyLocation, ...]:
    return (*record.earlier, *record.copies)


def _with_last_scan(state: State, key: RunKey, copy: CopyLocation) -> CopyLocation:
    """Return a further location of a run with its last scan."""
    watched = state.watchlist.get(key._replace(directory=copy.directory))
    return replace(copy, scan=watched.last) if watched and not copy.is_absent and watched.last else copy
