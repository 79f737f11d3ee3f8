"""Choose the newest complete checkpoint of some directories, for a restart that has no daemon to ask.

The order is that of the daemon's own rules: a resumable state before parameters, parameters before data; the checkpoint
that a framework's marker names before others of its directory; then the one that was written last. The date of a copy
proves nothing. So a checkpoint in a directory whose name suggests copies is not chosen if another one has more
progress; and of those written within seconds, as by `cp -r`, the one with the most progress is chosen. None is chosen
if it is unknown whether something newer is a complete checkpoint, because the job would silently repeat work.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePosixPath

from ckptd.core.model import Checkpoint, CheckpointState, Role, Unknown
from ckptd.core.runs.rotated_copies import is_previous

_TIERS = {Role.STATE: 0, Role.WEIGHTS: 1, Role.DATA: 2}  # none of them: a part without the model
_UNREADABLE_MEANS_NOTHING = frozenset({"generic"})  # its names are guesses: what cannot be read is rarely a checkpoint

_AT_ONCE = timedelta(seconds=10)  # between two files of one `cp -r`; jobs save less often
_OF_COPIES = re.compile(
    r"(?:^|[^a-z])(?:archived?|backups?|bak|copy|copies|old|prev|previous|saved)(?:$|[^a-z])", re.IGNORECASE
)

Order = tuple[int, bool, bool, bool, bool, float, float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Elsewhere:
    """A complete checkpoint in another directory than the chosen one, perhaps of another run."""

    checkpoint: Checkpoint
    is_further: bool  # at a later step, or epoch where not both state a step
    is_newer: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class NewestComplete:
    """The newest complete checkpoint, or why it is not known; neither: there is none.

    `skipped` are newer ones that are not complete, `notes` what is worth knowing before the checkpoint is loaded, and
    `elsewhere` those of other directories that are further or newer, of each directory the furthest and the newest.
    """

    chosen: Checkpoint | None = None
    unknown: tuple[Unknown, ...] = ()
    skipped: tuple[Checkpoint, ...] = ()
    notes: tuple[str, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()


def choose(
    found: Iterable[Checkpoint],
    leftovers: Collection[str] = (),
    step: int | None = None,
    nearby: Iterable[Checkpoint] = (),
) -> NewestComplete:
    """Choose among the checkpoints of one or several directories.

    `leftovers` are the paths that saves left behind which did not end; one of them is chosen only where there is no
    other of its role. With `step`, only checkpoints of that step count. `nearby` are never chosen, but compared with
    the chosen one.
    """
    nearby = [each for each in nearby if _is_complete(each) and step in {None, each.step}]
    wanted = [each for each in found if step is None or each.step == step]
    marked = {_place(each) for each in wanted if each.is_newest and _is_complete(each)}
    there = {str(each.path) for each in wanted if _is_complete(each)}
    is_copy = _find_copies([each for each in wanted if _is_complete(each)])
    written = _date_at_once(wanted)
    order = {
        id(each): _order(each, leftovers, marked, there, is_copy=id(each) in is_copy, written=written[id(each)])
        for each in wanted
    }
    complete = [each for each in wanted if _is_complete(each) and each.role in _TIERS]
    chosen = max(complete, key=lambda each: order[id(each)], default=None)
    unknown = tuple(_explain(wanted, chosen, order))
    newer = [each for each in wanted if chosen is None or each.modified_at > chosen.modified_at]
    skipped = tuple(each for each in newer if each.state in {CheckpointState.DAMAGED, CheckpointState.WRITING})
    if unknown:
        return NewestComplete(unknown=unknown, skipped=skipped)
    if chosen is None:
        return NewestComplete(skipped=skipped, elsewhere=tuple(_list_elsewhere(None, nearby)))
    return NewestComplete(
        chosen=chosen,
        skipped=skipped,
        notes=tuple(_list_notes(chosen, complete, leftovers)),
        elsewhere=tuple(_list_elsewhere(chosen, [*complete, *nearby])),
    )


def _is_complete(found: Checkpoint) -> bool:
    return found.state is CheckpointState.COMPLETE


def _place(found: Checkpoint) -> tuple[str, str]:
    return str(found.path.parent), found.format


def _order(
    found: Checkpoint,
    leftovers: Collection[str],
    marked: Collection[tuple[str, str]],
    there: Collection[str],
    *,
    is_copy: bool,
    written: float,
) -> Order:
    """Return what is greater for a checkpoint that is rather to be loaded."""
    is_passed_over = _place(found) in marked and not found.is_newest
    progress = found.step if found.step is not None else found.epoch
    return (
        -_TIERS.get(found.role, len(_TIERS)),
        str(found.path) not in leftovers,
        not is_passed_over,
        not is_previous(str(found.path), there),
        not is_copy,
        written,
        -1.0 if progress is None else float(progress),
        found.modified_at.timestamp(),
    )


def _find_copies(complete: Sequence[Checkpoint]) -> set[int]:
    """Return those in directories named for copies, if one elsewhere of the same format and role is further."""
    named = {id(each) for each in complete if _OF_COPIES.search(each.path.parent.name)}
    others = [each for each in complete if id(each) not in named]
    return {
        id(each)
        for each in complete
        if id(each) in named
        and any(
            other.format == each.format and other.role is each.role and _is_further(other, each) for other in others
        )
    }


def _date_at_once(found: Iterable[Checkpoint]) -> dict[int, float]:
    """Return when checkpoints were written; those of one directory that were written at once have one time."""
    dates: dict[int, float] = {}
    by_place: dict[tuple[str, str], list[Checkpoint]] = defaultdict(list)
    for each in found:
        by_place[_place(each)].append(each)
    for members in by_place.values():
        ordered = sorted(members, key=lambda each: each.modified_at, reverse=True)
        newest = ordered[0]
        for later, each in zip([newest, *ordered], ordered, strict=False):
            if later.modified_at - each.modified_at > _AT_ONCE:
                newest = each
            dates[id(each)] = newest.modified_at.timestamp()
    return dates


def _explain(wanted: Iterable[Checkpoint], chosen: Checkpoint | None, order: Mapping[int, Order]) -> Iterable[Unknown]:
    """Yield why a checkpoint may be a newer complete one than the chosen."""
    for each in wanted:
        if each.state is CheckpointState.UNKNOWN:
            is_newer = chosen is None or each.modified_at > chosen.modified_at
            if is_newer and (chosen is None or each.format not in _UNREADABLE_MEANS_NOTHING):
                yield Unknown(what=str(each.path), reason=each.reason or "it could not be read")
        elif not _is_complete(each):
            continue
        elif each.role not in _TIERS:
            if chosen is None:
                yield Unknown(what=str(each.path), reason=f"not known to be a checkpoint: {each.role_evidence}")
        elif each.grouping.doubt and not each.is_newest and (chosen is None or order[id(each)] >= order[id(chosen)]):
            yield Unknown(what=str(each.path), reason=f"grouping unknown: {each.grouping.doubt}")


def _list_elsewhere(chosen: Checkpoint | None, complete: Iterable[Checkpoint]) -> Iterable[Elsewhere]:
    """Yield what another directory holds that is further or newer, the furthest first; than nothing, each state is.

    Data beside a state or parameters is of no use for a resume, and not compared with them. Parameters beside a state
    are compared by their progress only, because many programs export a model when they end.
    """
    by_directory: dict[PurePosixPath, list[Elsewhere]] = {}
    for each in complete:
        other = _compare(each, chosen)
        if other.is_further or other.is_newer:
            by_directory.setdefault(each.path.parent, []).append(other)
    for others in sorted(by_directory.values(), key=lambda others: max(map(_elsewhere_order, others)), reverse=True):
        furthest = max(others, key=_elsewhere_order)
        newest = max(others, key=lambda other: (other.checkpoint.modified_at, str(other.checkpoint.path)))
        yield furthest
        if newest.is_newer and newest.checkpoint.modified_at > furthest.checkpoint.modified_at:
            yield newest


def _compare(found: Checkpoint, chosen: Checkpoint | None) -> Elsewhere:
    is_data = found.role is Role.DATA and (chosen is None or chosen.role is not Role.DATA)
    if found.role not in _TIERS or is_data:
        return Elsewhere(checkpoint=found, is_further=False, is_newer=False)
    if chosen is None:
        return Elsewhere(checkpoint=found, is_further=True, is_newer=True)
    is_apart = found.path.parent != chosen.path.parent
    return Elsewhere(
        checkpoint=found,
        is_further=is_apart and _is_further(found, chosen),
        is_newer=is_apart and found.role is chosen.role and found.modified_at > chosen.modified_at,
    )


def _elsewhere_order(other: Elsewhere) -> tuple[bool, float, float]:
    found = other.checkpoint
    progress = found.step if found.step is not None else found.epoch
    return other.is_further, float(progress or 0), found.modified_at.timestamp()


def _is_further(one: Checkpoint, other: Checkpoint) -> bool:
    for progress, compared in ((one.step, other.step), (one.epoch, other.epoch)):
        if progress is not None and compared is not None:
            return progress > compared
    return False


def _list_notes(chosen: Checkpoint, complete: Iterable[Checkpoint], leftovers: Collection[str]) -> Iterable[str]:
    if chosen.role is not Role.STATE:
        yield f"it is not known to be a resumable state: its role is {chosen.role}"
    if str(chosen.path) in leftovers:
        yield chosen.reason or "a save that did not end left it behind"
    if chosen.unsafe:
        yield f"loading it calls {', '.join(chosen.unsafe)}, which a checkpoint should not"
    others = [each for each in complete if _place(each) == _place(chosen) and each.role is chosen.role]
    later = [each for each in others if each.modified_at > chosen.modified_at]
    if chosen.is_newest and later:
        yield f"the marker of its format names it, and {max(later, key=lambda each: each.modified_at).path} is newer"
    further = [each for each in others if _is_further(each, chosen)]
    if further and not later:
        furthest = max(further, key=lambda each: (each.step or 0, each.epoch or 0))
        there, other = _name_progress(chosen, furthest), _name_progress(furthest, chosen)
        yield f"it was written last, at {there}; {furthest.path} is older and at {other}"


def _name_progress(found: Checkpoint, compared: Checkpoint) -> str:
    """Return how far a checkpoint is by what both state; `_is_further` says that there is something."""
    is_by_step = found.step is not None and compared.step is not None
    return f"step {found.step}" if is_by_step else f"epoch {found.epoch:g}"
