"""The floor: what no policy can prune, each with its reason."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from operator import attrgetter, itemgetter
from typing import NamedTuple

from ckptd.core.checkpoint_sets.name_numbers import Meaning, NameNumber, parse_name
from ckptd.core.checkpoint_sets.pieces import render
from ckptd.core.model import Certainty, Checkpoint, RunRecord
from ckptd.core.retention import (
    copied_runs,
    marked_best,
    not_replaced,
    references,
    resume_candidates,
    run_guards,
    saved_together,
)
from ckptd.core.retention.checkpoint_order import CheckpointOrder, Ranks, find_series
from ckptd.core.retention.policy import Policy
from ckptd.core.retention.references import Reference
from ckptd.core.retention.rules import Ranked, SeriesKey
from ckptd.core.runs.copied_checkpoints import identify_by_name
from ckptd.core.text.quantities import format_duration

NEWEST = "the newest complete one"
_MAY_BE_TRAININGS = frozenset(
    ("gpu", "host", "node", "expert", "chain", "replica", "walker", "member", "device", "worker")
)
_COUNTED = frozenset((Meaning.MEMBER, Meaning.COUNT, Meaning.PROGRESS, Meaning.SAVE))
_MARKED = "the format's marker names"
_UNEXPLAINED = frozenset((Meaning.OPEN, Meaning.BARE))
_IDENTITIES, _DEVICE_AND_INODE = attrgetter("identities"), itemgetter(0, 1)
RESUMED = {
    Certainty.PROVEN: "the running attempt resumed from it",
    Certainty.DECLARED: "the running attempt resumed from it, as the job says",
    Certainty.INFERRED: "the running attempt probably resumed from it",
}


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """The candidates of a run, at least one of them complete."""

    history: RunRecord
    policy: Policy
    now: datetime
    order: CheckpointOrder
    ranks: Ranks
    references: Sequence[Reference] = ()
    kept_by_people: Collection[str] = ()  # paths of checkpoints that are no candidates, because people put them there

    @property
    def sets(self) -> Sequence[Ranked]:
        return self.order.sets


def list_floor(run: JudgedRun) -> Iterator[tuple[int, str]]:
    """Yield index and reason of each checkpoint that the floor keeps; some more than once."""
    sets, newest = run.sets, run.order.newest
    last_written = max(reversed(run.order.complete), key=lambda index: sets[index].at)
    yield newest, NEWEST
    if sets[last_written].at > sets[newest].at:
        yield last_written, "the complete one that was written last"
    yield from _list_kept_in_series(run)
    yield from not_replaced.list_not_replaced(run.order)
    yield from saved_together.list_newest_common(run.order)
    for index, each in enumerate(sets):
        if not each.is_complete and (index > newest or each.at > sets[last_written].at):
            yield index, "newer than the newest complete one"
    yield from _list_special(run)
    yield from _list_best(run)
    yield from resume_candidates.find_candidates(run.history.attempts, run.ranks, run.order, run.kept_by_people)
    if run.references:
        yield from references.match(run.references, [_list_paths(each) for each in sets])
    yield from _list_linked(run)
    yield from _list_copies(run)
    yield from _list_young(run)


def _list_kept_in_series(run: JudgedRun) -> Iterator[tuple[int, str]]:
    sets = run.order.sets
    for key, indexes in run.order.complete_of_series.items():
        series = key[0]
        yield indexes[-1], f"the newest complete one of its series ({series})"
        if len(indexes) == 1:
            continue
        furthest = _find_furthest(sets, indexes)
        if furthest != indexes[-1] and sets[furthest].progress:
            yield furthest, f"the furthest progress of its series ({series})"
        # an earlier training in the same names may have got further than the one that has started over since
        of_latest = _find_furthest(sets, [index for index in indexes if sets[index].rank == sets[indexes[-1]].rank])
        if of_latest not in {furthest, indexes[-1]}:
            yield of_latest, f"the furthest progress of the latest attempt in its series ({series})"
        yield from _list_last_with_part(run, key, indexes)
    for index, each in enumerate(sets):
        if not each.record.checkpoint.grouping.progress:
            yield index, "no number in its name counts progress, so it is alone in its series"
        if not each.is_complete:
            complete = run.order.complete_of_series.get(each.series, ())
            if not complete or complete[-1] < index:
                yield index, "damaged, and no newer one of its series is complete"
            elif each.progress > max(sets[at].progress for at in complete):
                yield index, "damaged, and no complete one of its series got as far"


def _find_furthest(sets: Sequence[Ranked], indexes: Sequence[int]) -> int:
    return max(indexes, key=lambda index: (sets[index].progress, index))


def _list_last_with_part(run: JudgedRun, key: SeriesKey, complete: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Keep the newest one of a series with a part that no newer one has.

    Files of several trainings that save alternately can look like parts of one checkpoint. If one training ends before
    the others, its last file is only in an older checkpoint. That checkpoint stays if it has more parts than the
    newest one, or if the name of the part contains the number of a member, such as `gpu4`; other names may differ in
    each save. In directories of epochs, the name must be in recorded checkpoints of two epochs, whoever wrote them.
    """
    checkpoints = {index: run.sets[index].record.checkpoint for index in complete}
    if not any(found.parts or "*" in found.grouping.series for found in checkpoints.values()):
        return
    known: set[_PartName] = set()
    counts: Counter[_PartName] = Counter()
    newest_count = max(len(checkpoints[complete[-1]].parts), 1)
    for index in reversed(complete):
        found = checkpoints[index]
        parts = _name_parts(found)
        is_larger = len(found.parts) > newest_count
        new = {name: part for name, part in parts.items() if name not in known and (is_larger or name.is_member)}
        if known and new:
            if not is_larger and not counts and any(name.may_differ for name in new):
                counts = _count_epochs(run.history, key)
            last = [name for name in new if is_larger or not name.may_differ or counts[name] > 1]
            if last:
                yield index, f"the newest one with a part such as {new[last[0]].path.name}"
        known |= parts.keys()


class _PartName(NamedTuple):
    """What is alike in the names of a part in the checkpoints of one series."""

    text: str
    is_member: bool  # a number that is not progress tells it from other members
    may_differ: bool = False  # in each save, as the seed of a random generator does


def _count_epochs(history: RunRecord, key: SeriesKey) -> Counter[_PartName]:
    """Return in how many epochs or steps each name of a part is on record in a series."""
    found = (each.checkpoint for each in history.checkpoints)
    members = [each for each in found if find_series(each, str(each.path)) == key]
    return Counter(
        name for name, _ in {(name, each.grouping.progress) for each in members for name in _name_parts(each)}
    )


def _name_parts(found: Checkpoint) -> dict[_PartName, Checkpoint]:
    return {_name_part(found, part): part for part in found.parts or (found,)}


def _name_part(found: Checkpoint, part: Checkpoint) -> _PartName:
    """Return what is alike in the names of a part in the checkpoints of one series.

    That is all but progress, measured values, and numbers that a word explains as those of ranks or shards, of which
    there may be others after each start.
    """
    series = found.grouping.series.split("/")
    shown = [_show_as(name, one) for name, one in zip(str(part.path).split("/")[-len(series) :], series, strict=False)]
    named = [name for name in shown if name is not None]
    if len(named) == len(series):
        return _PartName("/".join(each.text for each in named), any(each.is_member for each in named))
    path = str(part.path).removeprefix(f"{found.path}/").removeprefix(f"{found.path.parent}/")
    below = [parse_name(name) for name in path.split("/")]
    numbers = {(at, index): number for at, name in enumerate(below) for index, number in enumerate(name.numbers)}
    trainings = {place for place, number in numbers.items() if _may_be_training(number)}
    marks = {
        place: "#"
        for place, number in numbers.items()
        if (number.meaning in _COUNTED and place not in trainings)
        or (number.meaning in _UNEXPLAINED and number.value in found.grouping.progress)
    }
    return _PartName(render(below, marks, metric="~"), is_member=bool(trainings), may_differ=bool(trainings))


def _may_be_training(number: NameNumber) -> bool:
    """Whether a word says that a number is one of a fold, seed or task, or of a member that may be a training."""
    if number.meaning is Meaning.MEMBER:
        return number.word in _MAY_BE_TRAININGS
    return number.meaning is Meaning.VARIANT and number.text.isdecimal()


def _show_as(name: str, series: str) -> _PartName | None:
    """Return a name as its series shows it, with those numbers of members that may be trainings; None: it is another.

    In `resnet*_rank*_epoch_#.pth`, `resnet18_rank0_epoch_3.pth` becomes `resnet18_rank#_epoch_#.pth`.
    """
    parsed = parse_name(name)
    found, left, is_member = parsed.texts[0], series, False
    if not left.startswith(parsed.texts[0]):
        return None
    left = left[len(parsed.texts[0]) :]
    for number, text in zip(parsed.numbers, parsed.texts[1:], strict=True):
        mark = number.text if left.startswith(number.text) else left[:1]
        if not left.startswith(mark + text) or (mark != number.text and mark not in {"#", "*", "~"}):
            return None
        left = left[len(mark + text) :]
        if mark == "*":
            is_member = is_member or not _counts_ranks(number)
            mark = "#" if _counts_ranks(number) else number.text
        found += mark + text
    return None if left else _PartName(found, is_member)


def _counts_ranks(number: NameNumber) -> bool:
    """Whether a word says that a number is one of ranks or shards, of which there may be others after each start."""
    return number.meaning is Meaning.COUNT or (
        number.meaning is Meaning.MEMBER and number.word not in _MAY_BE_TRAININGS
    )


def _list_special(run: JudgedRun) -> Iterator[tuple[int, str]]:
    resumed = _list_resumed(run.history)
    verified = None
    for index, each in enumerate(run.sets):
        record, found = each.record, each.record.checkpoint
        if record.is_pinned:
            yield index, "pinned"
        if found.is_newest or found.is_listed:
            yield index, f"{_MARKED if found.is_newest else 'an index or a note beside it names'} it"
        if resumed:
            paths = (each.path, *(str(part.path) for part in found.parts))
            yield from ((index, resumed[path]) for path in paths if path in resumed)
        if record.verified_full_at and run_guards.is_verified_full(record, run.policy.verify_age, run.now):
            verified = index
    if verified is not None:
        yield verified, "the newest one whose every byte was verified"


def _list_resumed(history: RunRecord) -> dict[str, str]:
    """Return the paths that running attempts resumed from, or may have resumed from, with the reason."""
    found: dict[str, str] = {}
    for attempt in history.attempts:
        resume = attempt.resumed_from
        if attempt.ended_at is not None or resume is None:
            continue
        for each in resume.candidates:
            found.setdefault(each.path, "the running attempt may have resumed from it")
        if resume.path is not None:
            found[resume.path] = RESUMED[resume.certainty]
    return found


def _list_best(run: JudgedRun) -> Iterator[tuple[int, str]]:
    """Keep the best of those that are marked as best, in each series; damaged ones only if no other is marked."""
    marked: dict[SeriesKey, list[int]] = {}
    for index, each in enumerate(run.sets):
        if each.record.checkpoint.is_best:
            marked.setdefault(each.series, []).append(index)
    for found in marked.values():
        complete = [index for index in found if run.sets[index].is_complete] or found
        chosen = marked_best.choose([run.sets[index].record.checkpoint for index in complete], 1)
        yield from ((complete[place], why) for place, why in chosen.items())


def _list_paths(each: Ranked) -> list[str]:
    """Return every path that means a checkpoint: its own, and those of its parts and members."""
    found = each.record.checkpoint
    members = (str(found.path.parent / file) for file in found.files)
    return list(dict.fromkeys((each.path, *(str(part.path) for part in found.parts), *members)))


def _list_linked(run: JudgedRun) -> Iterator[tuple[int, str]]:
    """Keep what has a file that has a second name there (hard link), in whichever checkpoint: its move frees no space.

    Anything else that has a second name elsewhere is refused when it is to be moved.
    """
    there = (each.checkpoint for each in run.history.checkpoints if each.deleted_at is None and each.pruned_at is None)
    files = list(map(_DEVICE_AND_INODE, chain.from_iterable(map(_IDENTITIES, there))))
    if len(set(files)) == len(files):
        return
    linked = {file for file, count in Counter(files).items() if count > 1}
    for index, each in enumerate(run.sets):
        if not linked.isdisjoint(map(_DEVICE_AND_INODE, each.record.checkpoint.identities)):
            yield index, "the same file has another name there (hard link)"


def _list_copies(run: JudgedRun) -> Iterator[tuple[int, str]]:
    """Keep the last complete copy of what another location of the run relies on."""
    needed = dict(copied_runs.list_needed(run.history, _list_resumed(run.history))) if run.history.copies else {}
    for index, each in enumerate(run.sets):
        if each.is_complete and (reason := needed.get(identify_by_name(each.record.checkpoint))):
            yield index, reason


def _list_young(run: JudgedRun) -> Iterator[tuple[int, str]]:
    young = run.now - run.policy.min_age
    for index, each in enumerate(run.sets):
        if each.at > young or each.record.first_seen_at > young:
            yield index, f"younger than {format_duration(run.policy.min_age)}"
