"""Recommend a checkpoint interval for a run, with the numbers behind it (`ckptd advise`)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from ckptd.core.forecast.optimum import daly_optimum, mean_time_between_interruptions
from ckptd.core.model import InterruptionTally, RunRecord
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.runs.observations import EndTally, count_interruptions


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """The interval that minimises lost time.

    Without a tally, no job of that size has been counted, and the interruption rate is an assumption.
    """

    interval: timedelta
    save_time: timedelta
    mean_time_between_interruptions: timedelta
    tally: InterruptionTally | None
    node_count: int


def advise(history: RunRecord, ends: Iterable[EndTally]) -> Advice | None:
    """Recommend an interval from how attempts on the run's cluster ended.

    Return None until ckptd has observed one of the run's checkpoints being written.
    """
    save_time = measure_rhythm(history).save_time
    if not save_time:
        return None
    node_count = _size(history)
    tally = count_interruptions(ends, node_count, history.key.uid)
    mean = mean_time_between_interruptions(tally, node_count)
    return Advice(
        interval=daly_optimum(save_time, mean),
        save_time=save_time,
        mean_time_between_interruptions=mean,
        tally=tally,
        node_count=node_count,
    )


def _size(history: RunRecord) -> int:
    latest = [attempt.node_count for attempt in history.attempts[-1:]]
    return max([job.node_count for job in history.jobs] or latest, default=1)
