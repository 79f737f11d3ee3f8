"""Puts the checkpoints of a run into saves, and the saves in order.

Newest is decided by the run's own progress within one attempt, then by when attempts began: a fresh run that starts
at step 0 in an old directory is newer than everything that lies there, and "checkpoint-10" is newer than
"checkpoint-9". Checkpoints that are gone still count for what an attempt had reached.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from ckptd.core.model import Attempt, CheckpointState, JobKey, RecordedCheckpoint
from ckptd.core.retention.names import parse_kind
from ckptd.core.retention.rules import KindKey, Part, Placed, Save

Ranks = Mapping[tuple[JobKey, int], int]

_COMPLETE = CheckpointState.COMPLETE


def rank_attempts(attempts: Iterable[Attempt]) -> Ranks:
    """Return the place of each attempt, by start, the oldest 0."""
    ordered = sorted(attempts, key=lambda attempt: (attempt.started_at, attempt.job, attempt.restart_count))
    return {(attempt.job, attempt.restart_count): rank for rank, attempt in enumerate(ordered)}


class Order(NamedTuple):
    """The saves of a run, oldest first, and indexes into them."""

    saves: list[Save]
    newest_of_kind: dict[KindKey, int]  # complete ones
    unreplaced: set[int]  # with a damaged part that no newer complete one of its kind replaces


def arrange(countable: Mapping[int, Iterable[Placed]], recorded: Iterable[RecordedCheckpoint], ranks: Ranks) -> Order:
    """Put the `countable` checkpoints, by the rank of their attempts, into saves and in order.

    `recorded` are all that the record knows of the run, gone ones included.
    """
    by_step, lineages = _read_progress(recorded, ranks)
    counts: dict[KindKey, int] = defaultdict(int)
    groups = [(rank, _group(placed, counts)) for rank, placed in countable.items()]
    saves = [_save(members, rank, by_step[rank], lineages[rank], counts) for rank, group in groups for members in group]
    saves.sort()  # no two have the same path, so that their parts are never compared
    newest = _find_newest(saves, len(counts))
    unreplaced = {
        index
        for index, save in enumerate(saves)
        if not save.is_whole and any(newest.get(kind, -1) < index for _, _, kind in save.parts)
    }
    return Order(saves, newest, unreplaced)


def _group(placed: Iterable[Placed], counts: dict[KindKey, int]) -> Iterable[list[Part]]:
    """Return the parts of each save of one attempt; add to `counts` how many complete ones each kind has."""
    saves: dict[object, list[Part]] = {}
    for path, record in placed:
        found = record.checkpoint
        parent, _, name = path.rpartition("/")
        pattern, numbers = parse_kind(name, found.step, found.epoch, found.name_step, found.name_epoch)
        part = (path, record, (parent, found.format, pattern))
        members = saves.setdefault(numbers or name, [part])
        if members[0] is not part:
            members.append(part)
        if found.state is _COMPLETE:
            counts[part[2]] += 1
    return saves.values()


def _find_newest(saves: Sequence[Save], kind_count: int) -> dict[KindKey, int]:
    """Return the index of the newest complete one of each of so many kinds."""
    newest: dict[KindKey, int] = {}
    for index in range(len(saves) - 1, -1, -1):
        if len(newest) == kind_count:
            break
        for _, record, kind in saves[index].parts:
            if record.checkpoint.state is _COMPLETE:
                newest.setdefault(kind, index)
    return newest


def _save(members: list[Part], rank: int, by_step: bool | None, lineage: int, counts: Mapping[KindKey, int]) -> Save:
    if len(members) > 1:
        members.sort(key=itemgetter(0))
        return _save_of_several(members, rank, by_step, lineage, counts)
    path, record, kind = members[0]
    found = record.checkpoint
    step, epoch = found.step, found.epoch
    return Save(
        rank,
        _progress(by_step, step, epoch),
        record.completed_at or found.modified_at,
        path,
        lineage,
        record.first_seen_at,
        step,
        epoch,
        found.state is _COMPLETE,
        counts[kind] > 1,
        members,
    )


def _save_of_several(
    members: list[Part], rank: int, by_step: bool | None, lineage: int, counts: Mapping[KindKey, int]
) -> Save:
    records = [record for _, record, _ in members]
    step = max((record.checkpoint.step for record in records if record.checkpoint.step is not None), default=None)
    epoch = max((record.checkpoint.epoch for record in records if record.checkpoint.epoch is not None), default=None)
    return Save(
        rank,
        _progress(by_step, step, epoch),
        max(record.completed_at or record.checkpoint.modified_at for record in records),
        members[0][0],
        lineage,
        max(record.first_seen_at for record in records),
        step,
        epoch,
        all(record.checkpoint.state is _COMPLETE for record in records),
        any(counts[kind] > 1 for _, _, kind in members),
        members,
    )


def _progress(by_step: bool | None, step: int | None, epoch: float | None) -> float:
    return 0.0 if by_step is None else (step if by_step else epoch) or 0.0


def _read_progress(
    recorded: Iterable[RecordedCheckpoint], ranks: Ranks
) -> tuple[dict[int, bool | None], dict[int, int]]:
    """Return by what each attempt counts (step True, epoch False, time None), and its lineage.

    An attempt counts by what every one of its saves tells, in whichever of its parts. It begins a new lineage when
    its lowest step (or epoch) is not above the highest that the lineage before it had reached.
    """
    records: dict[int, list[RecordedCheckpoint]] = defaultdict(list)
    steps: dict[int, list[int | None]] = defaultdict(list)
    epochs: dict[int, list[float | None]] = defaultdict(list)
    for record in recorded:
        if record.attempt is not None and (rank := ranks.get(record.attempt)) is not None:
            records[rank].append(record)
            steps[rank].append(record.checkpoint.step)
            epoch = record.checkpoint.epoch
            epochs[rank].append(epoch if epoch is None or math.isfinite(epoch) else None)
    measures: dict[int, bool | None] = {}
    lineages: dict[int, int] = {}
    lineage = 0
    highest: tuple[float | None, float | None] = (None, None)
    for rank in sorted(steps):
        if _is_told(records[rank], steps[rank]):
            measures[rank] = True
        else:
            measures[rank] = False if _is_told(records[rank], epochs[rank]) else None
        step_range, epoch_range = _range(steps[rank]), _range(epochs[rank])
        if _is_below(step_range, highest[0]) or _is_below(epoch_range, highest[1]):
            lineage, highest = lineage + 1, (None, None)
        highest = (_higher(step_range, highest[0]), _higher(epoch_range, highest[1]))
        lineages[rank] = lineage
    return measures, lineages


def _is_told(records: Iterable[RecordedCheckpoint], values: Sequence[float | None]) -> bool:
    """Whether every save has a part with such a value: an optimizer's file often has none, its model's one has."""
    if None not in values:
        return True
    saves = [_numbers(record) for record in records]
    told = {save for save, value in zip(saves, values, strict=True) if value is not None}
    return all(save in told for save in saves)


def _numbers(record: RecordedCheckpoint) -> object:
    found = record.checkpoint
    name = found.path.name
    return parse_kind(name, found.step, found.epoch, found.name_step, found.name_epoch).numbers or name


def _range(values: Sequence[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None


def _is_below(values: tuple[float, float] | None, highest: float | None) -> bool:
    return values is not None and highest is not None and values[0] <= highest


def _higher(values: tuple[float, float] | None, highest: float | None) -> float | None:
    if values is None:
        return highest
    return values[1] if highest is None else max(values[1], highest)
