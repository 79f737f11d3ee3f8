"""Finds checkpoints of which a member is missing: fewer than their names say, or than those before them had."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ckptd.core.checkpoint_sets.drafts import Draft
from ckptd.core.model import Checkpoint, CheckpointState, Role

_ROLES = list(Role)  # the strongest first
_BEFORE = 2  # checkpoints that agree on their members


def mark_missing(built: Sequence[Checkpoint], drafts: Sequence[Draft], settled_ns: int) -> list[Checkpoint]:
    """Return the checkpoints, in the same order, with those that are short of members so marked."""
    marked = list(built)
    by_series: dict[str, list[int]] = defaultdict(list)
    for at, draft in enumerate(drafts):
        if draft.doubt is None:
            by_series[draft.series].append(at)
    for found in by_series.values():
        _take_role_of_series(marked, found)
        found.sort(key=lambda at: (built[at].modified_at, drafts[at].progress))
        last_of = {drafts[at].signature: position for position, at in enumerate(found)}
        for position, at in enumerate(found):
            if why := _find_missing(drafts, found, position, last_of):
                marked[at] = _mark(built[at], why, settled_ns)
    return marked


def _take_role_of_series(marked: list[Checkpoint], found: Sequence[int]) -> None:
    """Give those that could not be read whole the role that the complete ones of their series have."""
    complete = [marked[at] for at in found if marked[at].state is CheckpointState.COMPLETE]
    strongest = min(complete, key=lambda made: _ROLES.index(made.role), default=None)
    if strongest is None:
        return
    for at in found:
        made = marked[at]
        if made.state is CheckpointState.DAMAGED and _ROLES.index(made.role) > _ROLES.index(strongest.role):
            marked[at] = replace(made, role=strongest.role, role_evidence="as the others of its series")


def _find_missing(
    drafts: Sequence[Draft], found: Sequence[int], position: int, last_of: Mapping[frozenset[str], int]
) -> str | None:
    draft = drafts[found[position]]
    for expected, count in draft.expected_counts:
        if 0 < count < expected:
            return f"it has {count} of the {expected} members that its names tell"
    if draft.ranks and (gap := _find_gap(draft.ranks)) is not None:
        return f"member {gap} is missing"
    earlier = [drafts[at].signature for at in found[max(0, position - _BEFORE) : position]]
    if not earlier or last_of[draft.signature] > position or not draft.signature < earlier[-1]:
        return None
    is_usual = len(earlier) == _BEFORE and len(set(earlier)) == 1
    if not (is_usual or draft.ranks):
        return None
    missing = min(earlier[-1] - draft.signature)
    return f"{missing.rpartition('/')[2]} is missing, which the checkpoints before it have"


def _find_gap(ranks: frozenset[int]) -> int | None:
    """Return the first number that is missing between 0, or 1, and the highest."""
    first = 0 if 0 in ranks else 1
    return next((number for number in range(first, max(ranks) + 1) if number not in ranks), None)


def _mark(found: Checkpoint, why: str, settled_ns: int) -> Checkpoint:
    """Take a checkpoint for one that is being written while it is young, and for a damaged one later."""
    if found.state is not CheckpointState.COMPLETE:
        return found
    newest_ns = max((identity.modified_ns for identity in found.identities), default=0)
    state = CheckpointState.WRITING if newest_ns > settled_ns else CheckpointState.DAMAGED
    return replace(found, state=state, reason=why)
