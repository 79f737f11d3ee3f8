"""Puts the checkpoints of a run into saves, and the saves in order.

Newest is decided by the run's own progress within one attempt, then by when attempts began: a fresh run that starts
at step 0 in an old directory is newer than everything that lies there, and "checkpoint-10" is newer than
"checkpoint-9". Checkpoints that are gone still count for what an attempt had reached.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ckptd.core.model import Attempt, CheckpointState, JobKey, RecordedCheckpoint
from ckptd.core.retention.names import parse_kind
from ckptd.core.retention.rules import Save

KindKey = tuple[str, str, str]  # directory, format, pattern of the name
Ranks = Mapping[tuple[JobKey, int], int]

_COMPLETE = CheckpointState.COMPLETE


def rank_attempts(attempts: Iterable[Attempt]) -> Ranks:
    """Return the place of each attempt, by start, the oldest 0."""
    ordered = sorted(attempts, key=lambda attempt: (attempt.started_at, attempt.job, attempt.restart_count))
    return {(attempt.job, attempt.restart_count): rank for rank, attempt in enumerate(ordered)}


Part = tuple[str, RecordedCheckpoint]  # its path as text, and it


class Order(NamedTuple):
    """The saves of a run, oldest first, and indexes into them."""

    saves: list[Save]
    newest_of_kind: dict[KindKey, int]  # complete ones
    unreplaced: set[int]  # with a damaged part that no newer complete one of its kind replaces


def arrange(countable: Iterable[Part], recorded: Iterable[RecordedCheckpoint], ranks: Ranks) -> Order:
    """Put the `countable` checkpoints into saves and in order.

    `recorded` are all that the record knows of the run, gone ones included; each countable one's attempt is ranked.
    """
    by_step, lineages = _read_progress(recorded, ranks)
    parts: dict[tuple[int, object], list[tuple[str, RecordedCheckpoint, KindKey]]] = {}
    counts: dict[KindKey, int] = defaultdict(int)
    for path, record in countable:
        found = record.checkpoint
        parent, _, name = path.rpartition("/")
        pattern, numbers = parse_kind(name, found.step, found.epoch, found.name_step, found.name_epoch)
        kind = (parent, found.format, pattern)
        key = (ranks[record.attempt], numbers or name)  # type: ignore[index]  # countable ones have an attempt
        if key in parts:
            parts[key].append((path, record, kind))
        else:
            parts[key] = [(path, record, kind)]
        if found.state is _COMPLETE:
            counts[kind] += 1
    made: list[tuple[int, float, datetime, str, Save, list[tuple[str, RecordedCheckpoint, KindKey]]]] = []
    for (rank, _), members in parts.items():
        save = _save(members, rank, lineages[rank], counts)
        measure = by_step[rank]
        progress = 0.0 if measure is None else (save.step if measure else save.epoch) or 0.0
        made.append((rank, progress, save.at, members[0][0], save, members))
    made.sort()  # no two have the same path, so that saves are never compared
    newest = {
        kind: index
        for index, one in enumerate(made)
        for _, record, kind in one[5]
        if record.checkpoint.state is _COMPLETE
    }
    saves = [one[4] for one in made]
    unreplaced = {
        index
        for index, one in enumerate(made)
        if not one[4].is_whole and any(newest.get(kind, -1) < index for _, _, kind in one[5])
    }
    return Order(saves, newest, unreplaced)


def _save(
    members: list[tuple[str, RecordedCheckpoint, KindKey]], rank: int, lineage: int, counts: Mapping[KindKey, int]
) -> Save:
    if len(members) == 1:
        _, record, kind = members[0]
        found = record.checkpoint
        return Save(
            lineage,
            rank,
            record.completed_at or found.modified_at,
            record.first_seen_at,
            found.step,
            found.epoch,
            found.state is _COMPLETE,
            counts[kind] > 1,
            (record,),
        )
    members.sort(key=lambda member: member[0])
    records = tuple(record for _, record, _ in members)
    return Save(
        lineage,
        rank,
        max(record.completed_at or record.checkpoint.modified_at for record in records),
        max(record.first_seen_at for record in records),
        max((record.checkpoint.step for record in records if record.checkpoint.step is not None), default=None),
        max((record.checkpoint.epoch for record in records if record.checkpoint.epoch is not None), default=None),
        all(record.checkpoint.state is _COMPLETE for record in records),
        any(counts[kind] > 1 for _, _, kind in members),
        records,
    )


def _read_progress(
    recorded: Iterable[RecordedCheckpoint], ranks: Ranks
) -> tuple[dict[int, bool | None], dict[int, int]]:
    """Return by what each attempt counts (step True, epoch False, time None), and its lineage.

    An attempt counts by what every one of its checkpoints tells. It begins a new lineage when its lowest step (or
    epoch) is not above the highest that the lineage before it had reached.
    """
    steps: dict[int, list[int | None]] = defaultdict(list)
    epochs: dict[int, list[float | None]] = defaultdict(list)
    for record in recorded:
        if record.attempt is not None and (rank := ranks.get(record.attempt)) is not None:
            steps[rank].append(record.checkpoint.step)
            epoch = record.checkpoint.epoch
            epochs[rank].append(epoch if epoch is None or math.isfinite(epoch) else None)
    measures: dict[int, bool | None] = {}
    lineages: dict[int, int] = {}
    lineage = 0
    highest: tuple[float | None, float | None] = (None, None)
    for rank in sorted(steps):
        measures[rank] = True if None not in steps[rank] else False if None not in epochs[rank] else None
        step_range, epoch_range = _range(steps[rank]), _range(epochs[rank])
        if _is_below(step_range, highest[0]) or _is_below(epoch_range, highest[1]):
            lineage, highest = lineage + 1, (None, None)
        highest = (_higher(step_range, highest[0]), _higher(epoch_range, highest[1]))
        lineages[rank] = lineage
    return measures, lineages


def _range(values: Sequence[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None


def _is_below(values: tuple[float, float] | None, highest: float | None) -> bool:
    return values is not None and highest is not None and values[0] <= highest


def _higher(values: tuple[float, float] | None, highest: float | None) -> float | None:
    if values is None:
        return highest
    return values[1] if highest is None else max(values[1], highest)
