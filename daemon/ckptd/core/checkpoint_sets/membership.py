"""Finds checkpoints with missing members: fewer than their names state, or than earlier checkpoints have."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ckptd.core.checkpoint_sets.drafts import SetDraft
from ckptd.core.checkpoint_sets.signatures import Signature, is_alone, sign
from ckptd.core.model import Checkpoint, CheckpointState, Role

_ROLES = list(Role)  # the strongest first
_BEFORE = 2  # checkpoints that agree on their members
_LACKING = "is missing, which the checkpoints before it have"


class _Shortage(NamedTuple):
    """Why members of a checkpoint are missing, and whether this is certain enough to call it damaged."""

    why: str
    is_sure: bool


def mark_missing(built: Sequence[Checkpoint], drafts: Sequence[SetDraft], unchanged_since_ns: int) -> list[Checkpoint]:
    """Return the checkpoints, in the same order, with those marked that lack members."""
    marked = list(built)
    by_series: dict[str, list[int]] = defaultdict(list)
    for at, draft in enumerate(drafts):
        if draft.doubt is None:
            by_series[draft.series].append(at)
    for found in by_series.values():
        _set_role_of_series(marked, found)
        found.sort(key=lambda at: (built[at].modified_at, drafts[at].progress))
        last_of = {drafts[at].signature: position for position, at in enumerate(found)}
        for position, at in enumerate(found):
            if short := _find_missing(drafts, found, position, last_of):
                usual_ns = _find_duration_ns(drafts[found[position - 1]], drafts[at]) if position else 0
                marked[at] = _mark(marked[at], short, unchanged_since_ns - usual_ns)
    return marked


def _find_duration_ns(before: SetDraft, later: SetDraft) -> int:
    """Return how long a save took, at most until the next one began: a member may be an old file, copied by `cp -p`."""
    begin, end = before.span_ns
    return min(end - begin, max(0, later.span_ns.begin - begin))


def is_short_of_others(found: Checkpoint) -> bool:
    """Whether a checkpoint counts as damaged only because those before it have more members."""
    return found.state is CheckpointState.DAMAGED and (found.reason or "").endswith(_LACKING)


def _set_role_of_series(marked: list[Checkpoint], found: Sequence[int]) -> None:
    """Set the role of checkpoints that could not be read completely to that of the complete ones of their series."""
    damaged = [at for at in found if marked[at].state is CheckpointState.DAMAGED]
    roles = {marked[at].role for at in found if marked[at].state is CheckpointState.COMPLETE} if damaged else ()
    strongest = min(roles, key=_ROLES.index, default=None)
    if strongest is None:
        return
    for at in damaged:
        if _ROLES.index(marked[at].role) > _ROLES.index(strongest):
            marked[at] = replace(marked[at], role=strongest, role_evidence="as the others of its series")


def _find_missing(
    drafts: Sequence[SetDraft], found: Sequence[int], position: int, last_of: Mapping[Signature, int]
) -> _Shortage | None:
    draft = drafts[found[position]]
    for expected, count in draft.expected_counts:
        if 0 < count < expected:
            return _Shortage(f"it has {count} of the {expected} members that its names tell", is_sure=True)
    if draft.ranks and (gap := _find_gap(draft.ranks)) is not None:
        return _Shortage(f"member {gap} is missing", is_sure=True)
    if not position or last_of[draft.signature] > position:
        return None
    if not draft.signature < drafts[found[position - 1]].signature:
        return None
    earlier = [drafts[at] for at in found[max(0, position - _BEFORE) : position]]
    name, index = min(earlier[-1].signature - draft.signature)
    is_usual = len(earlier) == _BEFORE and len({each.signature for each in earlier}) == 1
    if (is_usual and (name, index) in sign(filter(is_alone, earlier[-1].parts))) or draft.ranks:
        return _Shortage(f"{name.rpartition('/')[2]} {_LACKING}", is_sure=True)
    if _is_added((name, index), earlier[-1], [drafts[at] for at in found[: position - 1]]):
        return None
    furthest = max(drafts[at].progress for at in found[: position + 1])
    if any(_is_replaced_by(earlier[-1], drafts[at], furthest) for at in found[position + 1 :]):
        return None
    return _Shortage(
        f"nobody can tell whether it is whole: {name.rpartition('/')[2]} is missing, which the one before it has",
        is_sure=False,
    )


def _is_added(member: tuple[str, int], before: SetDraft, others: Sequence[SetDraft]) -> bool:
    """Whether a member was only added to one checkpoint: no other has it, though one of them got further."""
    return any(other.progress > before.progress for other in others) and all(
        member not in other.signature for other in others
    )


def _is_replaced_by(before: SetDraft, later: SetDraft, furthest: tuple[int, ...]) -> bool:
    """Whether a later checkpoint got further than all before it, and has what the one before this has.

    One that did not may be a copy that a person put back: its time of writing is later than its content.
    """
    return later.progress > furthest and later.signature >= before.signature


def _find_gap(ranks: frozenset[int]) -> int | None:
    """Return the first number that is missing between 0, or 1, and the highest."""
    first = 0 if 0 in ranks else 1
    return next((number for number in range(first, max(ranks) + 1) if number not in ranks), None)


def _mark(found: Checkpoint, short: _Shortage, unchanged_since_ns: int) -> Checkpoint:
    """Mark a checkpoint with missing members as being written while it is young, later as damaged or uncertain."""
    if found.state is not CheckpointState.COMPLETE:
        return found
    newest_ns = max((identity.modified_ns for identity in found.identities), default=0)
    if newest_ns > unchanged_since_ns:
        return replace(found, state=CheckpointState.WRITING, reason=short.why)
    if short.is_sure:
        return replace(found, state=CheckpointState.DAMAGED, reason=short.why)
    return replace(found, grouping=replace(found.grouping, doubt=short.why))
