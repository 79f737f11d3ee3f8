"""Orders the checkpoints of a run from the oldest to the newest, and assigns each to its series.

Attempts are ordered by their start, and the checkpoints of an attempt by the time of writing. A new run that starts at
step 0 in an old directory is therefore newer than all older files there, and so are the checkpoints that an attempt
saves after a rollback (a new lineage). Of two that were written at the same instant, the one with more progress is
newer.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from ckptd.core.model import Attempt, Checkpoint, CheckpointState, JobKey, RecordedCheckpoint, Role
from ckptd.core.retention.lineages import WrittenCheckpoint, choose_measure, number_lineages
from ckptd.core.retention.rules import Ranked, SeriesKey

Ranks = Mapping[tuple[JobKey, int], int]

_COMPLETE = CheckpointState.COMPLETE


def rank_attempts(attempts: Iterable[Attempt]) -> Ranks:
    """Return the place of each attempt, by start, the oldest 0."""
    ordered = sorted(attempts, key=lambda attempt: (attempt.started_at, attempt.job, attempt.restart_count))
    return {(attempt.job, attempt.restart_count): rank for rank, attempt in enumerate(ordered)}


def find_series(found: Checkpoint, path: str) -> SeriesKey:
    """Return the series of a checkpoint; one with a fixed name is the only one of its own."""
    return found.grouping.series or path, found.format


@dataclass(frozen=True)
class CheckpointOrder:
    """The candidates of a run, oldest first, and indexes of them."""

    sets: Sequence[Ranked]
    recorded: Mapping[SeriesKey, Sequence[Ranked]]  # all on record whose writer is proven, oldest first

    @cached_property
    def complete(self) -> list[int]:
        return [index for index, each in enumerate(self.sets) if each.is_complete]

    @cached_property
    def complete_of_series(self) -> Mapping[SeriesKey, list[int]]:
        found: dict[SeriesKey, list[int]] = defaultdict(list)
        for index in self.complete:
            found[self.sets[index].series].append(index)
        return found

    @cached_property
    def newest(self) -> int:
        """The newest complete one: a resumable state where there is any, else one that no pattern had to name."""
        return max(self.complete, key=lambda index: (_worth(self.sets[index]), index))


def arrange(judged: Mapping[str, bool], recorded: Iterable[RecordedCheckpoint], ranks: Ranks) -> CheckpointOrder:
    """Order the checkpoints at the `judged` paths, from all recorded data of their run.

    The value of a judged path says whether only a `prune_files` pattern allows its removal.
    """
    by_series: dict[SeriesKey, list[WrittenCheckpoint]] = defaultdict(list)
    for record in recorded:
        if record.attempt is not None and (rank := ranks.get(record.attempt)) is not None:
            path = str(record.checkpoint.path)
            by_series[find_series(record.checkpoint, path)].append(WrittenCheckpoint(rank, path, record))
    ordered = {series: _order_series(series, written, judged) for series, written in by_series.items()}
    sets = [each for members in ordered.values() for each in members if each.path in judged and _is_present(each)]
    sets.sort(key=_place)
    return CheckpointOrder(sets, ordered)


def _worth(each: Ranked) -> tuple[bool, bool]:
    return each.record.checkpoint.role == Role.STATE, not each.is_named


def _place(each: Ranked) -> tuple[object, ...]:
    return each[:4]


def _is_present(each: Ranked) -> bool:
    return each.record.deleted_at is None and each.record.pruned_at is None


def _order_series(
    series: SeriesKey, written: Sequence[WrittenCheckpoint], judged: Mapping[str, bool]
) -> Sequence[Ranked]:
    measure = choose_measure(written)
    members = [
        Ranked(
            rank,
            record.completed_at or record.checkpoint.modified_at,
            measure(record.checkpoint),
            path,
            record,
            series,
            record.checkpoint.state is _COMPLETE,
            0,
            judged.get(path, False),
        )
        for rank, path, record in written
    ]
    if len(members) == 1:
        return members
    members.sort(key=_place)
    lineages = list(number_lineages([(each.rank, each.progress) for each in members]))
    if lineages[-1] == 0:
        return members
    members = [each._replace(lineage=lineage) for each, lineage in zip(members, lineages, strict=True)]
    is_unproven = _is_order_unproven([each for each in members if each.is_complete and _is_present(each)])
    return [each._replace(is_order_unproven=is_unproven) for each in members]


def _is_order_unproven(series: Sequence[Ranked]) -> bool:
    """Whether only the times of writing order two lineages, because one scan was the first to find both.

    A copy in the order of names looks like that, too: `step_1000` before `step_900`. Whether the policy allows the
    removal of a checkpoint makes no difference.
    """
    lineages: dict[datetime, int] = {}
    return any(lineages.setdefault(each.record.first_seen_at, each.lineage) != each.lineage for each in series)
