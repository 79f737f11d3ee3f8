"""Builds a checkpoint from a draft: files, state, role and progress from those of its parts."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TypeVar

from ckptd.core.checkpoint_sets.drafts import SetDraft
from ckptd.core.checkpoint_sets.name_numbers import COMPANION, DATE_WORD, EPOCH_WORDS, TIME_WORD
from ckptd.core.checkpoint_sets.pieces import Piece, Shape
from ckptd.core.model import Checkpoint, CheckpointState, Level, Role

_LEVELS = list(Level)
_ROLES = list(Role)  # the strongest first
_WORST_FIRST = (CheckpointState.WRITING, CheckpointState.DAMAGED, CheckpointState.UNKNOWN)
Value = TypeVar("Value")


def build(draft: SetDraft, root: PurePosixPath, unchanged_since_ns: int) -> Checkpoint:
    """Return the checkpoint of a draft."""
    first = draft.parts[0]
    if len(draft.parts) == 1 and not draft.others and draft.path == first.path:
        made = first.checkpoint.in_group(draft.grouping)
    else:
        made = _combine(draft, root, unchanged_since_ns)
    is_known = made.step is not None and EPOCH_WORDS.isdisjoint(draft.words)
    return made if draft.doubt or is_known else _with_named_progress(made, draft)


def _combine(draft: SetDraft, root: PurePosixPath, unchanged_since_ns: int) -> Checkpoint:
    parts = sorted((piece.checkpoint for piece in draft.parts), key=_part_order)
    path = root / draft.path
    base = f"{str(path.parent).rstrip('/')}/"
    files = [
        (str(part.path.parent / file), identity)
        for part in parts
        for file, identity in zip(part.files, part.identities, strict=True)
    ]
    files += [(str(root / other.path), other.identity) for other in draft.others]
    files.sort()
    members = () if draft.doubt else draft.parts  # what may be several checkpoints may be of several steps
    state, reason = _combine_states(members, parts, base, unchanged_since_ns)
    role, role_evidence = _combine_roles(parts, base)

    def name_epoch(part: Checkpoint) -> float | None:  # a number that is no progress may be that of a rank
        return part.name_epoch if part.name_epoch in draft.progress else None

    def name_step(part: Checkpoint) -> int | None:
        return part.name_step if part.name_step in draft.progress else None

    return Checkpoint(
        path=path,
        format=parts[0].format,
        files=tuple([file.removeprefix(base) for file, _ in files]),
        identities=tuple([identity for _, identity in files]),
        owner_uids=frozenset[int]().union(*(part.owner_uids for part in parts), {other.uid for other in draft.others}),
        size_bytes=sum(identity.size_bytes for _, identity in files),
        modified_at=max(part.modified_at for part in parts),
        state=state,
        reason=reason,
        level=min((part.level for part in parts), key=_LEVELS.index),
        epoch=_first(parts, lambda part: part.content_epoch, name_epoch),
        step=_first(parts, lambda part: part.content_step, name_step),
        name_epoch=_first(parts, name_epoch),
        name_step=_first(parts, name_step),
        is_best=True if any(part.is_best for part in parts) else None,
        is_newest=True if any(part.is_newest for part in parts) else None,
        is_listed=True if any(part.is_listed for part in parts) else None,
        metrics={name: value for part in reversed(parts) for name, value in part.metrics.items()},
        goal_epoch=_first(parts, lambda part: part.goal_epoch),
        goal_step=_first(parts, lambda part: part.goal_step),
        unsafe=tuple(dict.fromkeys(name for part in parts for name in part.unsafe)),
        content_epoch=_first(parts, lambda part: part.content_epoch),
        content_step=_first(parts, lambda part: part.content_step),
        role=role,
        role_evidence=role_evidence,
        is_result=any(part.is_result for part in parts),
        grouping=draft.grouping,
        parts=tuple(parts),
    )


def _part_order(part: Checkpoint) -> tuple[bool, str]:
    """Return the sort order of parts: the model first, because its format and progress are used for the set."""
    return bool(COMPANION.search(part.path.name)), str(part.path)


def _first(parts: Sequence[Checkpoint], *fields: Callable[[Checkpoint], Value | None]) -> Value | None:
    return next((value for field in fields for part in parts if (value := field(part)) is not None), None)


def _combine_roles(parts: Sequence[Checkpoint], base: str) -> tuple[Role, str]:
    """Return the strongest role of the parts; parameters together with the rest of a state are a state."""
    strongest = min(parts, key=lambda part: _ROLES.index(part.role))
    rest = next((part for part in parts if part.role is Role.PART), None)
    if strongest.role is Role.WEIGHTS and rest is not None:
        return Role.STATE, f"{str(rest.path).removeprefix(base)}: {rest.role_evidence}, beside parameters"
    if not strongest.role_evidence or len(parts) == 1:
        return strongest.role, strongest.role_evidence
    return strongest.role, f"{str(strongest.path).removeprefix(base)}: {strongest.role_evidence}"


def _with_named_progress(made: Checkpoint, draft: SetDraft) -> Checkpoint:
    """Add the epoch and step from the numbers in the names; a number without a word is a step."""
    epoch = step = None
    for number, word in zip(draft.progress, draft.words, strict=True):
        if word in EPOCH_WORDS:
            epoch = number
        elif word not in {DATE_WORD, TIME_WORD} and number not in {epoch, made.epoch}:
            step = number
    if made.epoch is None and made.name_epoch is None and epoch is not None:
        made = replace(made, epoch=epoch, name_epoch=epoch)
    if made.step is None and made.name_step is None and step is not None:
        made = replace(made, step=step, name_step=step)
    return made


def _combine_states(
    members: Sequence[Piece], parts: Sequence[Checkpoint], base: str, unchanged_since_ns: int
) -> tuple[CheckpointState, str | None]:
    """Return the state of a set: `writing` if a part is being written, otherwise that of its worst part.

    The steps of `members` are compared.
    """
    for state in _WORST_FIRST:
        found = next((part for part in parts if part.state is state), None)
        if found is not None:
            name = str(found.path).removeprefix(base)
            return state, f"{name}: {found.reason}" if found.reason else name
    mixed = _find_mixed(members, "step", lambda piece: piece.checkpoint.content_step) or _find_mixed(
        members, "epoch", lambda piece: piece.checkpoint.content_epoch
    )
    if mixed:
        is_young = max(piece.modified_ns for piece in members) > unchanged_since_ns
        return (CheckpointState.WRITING if is_young else CheckpointState.DAMAGED), mixed
    return CheckpointState.COMPLETE, _first(parts, lambda part: part.reason)


def _find_mixed(pieces: Iterable[Piece], word: str, field: Callable[[Piece], float | None]) -> str | None:
    """Return the reason if members with similar names have different steps: one checkpoint overwrites another."""
    said: dict[Shape, set[float]] = {}
    for piece in pieces:
        if (value := field(piece)) is not None:
            said.setdefault(piece.shape, set()).add(value)
    mixed = next((sorted(values) for values in said.values() if len(values) > 1), None)
    return None if mixed is None else f"its members are of different {word}s ({mixed[0]} and {mixed[1]})"
