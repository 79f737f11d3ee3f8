"""What was seen over several cycles, gathered for rules; a new start takes it up again from the record."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from ckptd.core.model import (
    Attempt,
    EndCause,
    FreeSpaceSample,
    Hold,
    InterruptionTally,
    Job,
    JobKey,
    RunKey,
)
from ckptd.core.runs.interruptions import InterruptionTallies, Owner

TALLY_AGE = timedelta(days=180)  # ends from before say nothing of the cluster as it is now
INTERRUPTIONS = frozenset({EndCause.PREEMPTION, EndCause.NODE_FAILURE})
NOTHING = InterruptionTally(0, timedelta(0))


class EndTally(NamedTuple):
    """How many attempts of a size ended in a partition for a cause, and how long they ran, in whole seconds, summed.

    They are of one owner; None where nobody knows of whom.
    """

    node_count: int
    partition: str | None
    cause: EndCause
    attempt_count: int
    observed: timedelta
    uid: Owner = None


class TimedOutAttempt(NamedTuple):
    """An attempt that its time limit ended, with its job as last seen."""

    job: Job
    attempt: Attempt


@dataclass(frozen=True, kw_only=True, slots=True)
class RestartState:
    """What a starting daemon reads from the database about the time before it."""

    ends: tuple[EndTally, ...] = ()
    timed_out: Mapping[RunKey, TimedOutAttempt] = field(default_factory=dict)  # the latest of each run
    free_space_samples: Mapping[RunKey, tuple[FreeSpaceSample, ...]] = field(default_factory=dict)
    holds: Iterable[tuple[JobKey, Hold]] = ()  # by ckptd, oldest first


def count_interruptions(ends: Iterable[EndTally], node_count: int, uid: int) -> InterruptionTally | None:
    """Return what interrupted attempts of a size, as it counts for an owner's, and how long they were seen.

    None where none of them has ended.
    """
    by_owner: dict[Owner, InterruptionTally] = {}
    for tally in ends:
        if size_class(tally.node_count) == size_class(node_count):
            by_owner[tally.uid] = add_tally(by_owner.get(tally.uid, NOTHING), tally)
    return InterruptionTallies(by_owner).of(uid) if by_owner else None


def add_tally(known: InterruptionTally, tally: EndTally) -> InterruptionTally:
    count = tally.attempt_count if tally.cause in INTERRUPTIONS else 0
    return InterruptionTally(known.interruption_count + count, known.observed + tally.observed)


def tally_of(attempt: Attempt, count: int, uid: Owner) -> EndTally:
    assert attempt.ended_at is not None
    seconds = int(attempt.ended_at.timestamp()) - int(attempt.started_at.timestamp())
    cause = attempt.cause or EndCause.UNKNOWN
    return EndTally(attempt.node_count, attempt.partition, cause, count, timedelta(seconds=count * seconds), uid)


def size_class(node_count: int) -> int:
    """Return which jobs are alike in size: up to 1, 2, 4, 8 nodes and so on."""
    return max(node_count - 1, 0).bit_length()
