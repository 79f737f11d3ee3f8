"""Saves so often that saving takes a noticeable part of the time."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core import history as facts
from ckptd.core.health.interface import Speaker, seconds
from ckptd.core.model import Evidence, Finding, RunHistory, Severity, Unknown
from ckptd.core.optimum import daly_optimum, mean_time_between_interruptions
from ckptd.core.rhythm import measure_rhythm
from ckptd.core.wording import format_duration

HOLD_FACTOR = 0.8  # of the threshold, once the flag is open


@dataclass(frozen=True, slots=True)
class TooFrequent:
    """Holds when a save takes more than `share` of the interval, once `min_saves` were seen being written."""

    name: ClassVar[str] = "too-frequent"
    share: float = 0.10
    min_saves: int = 8  # of fewer, two that a busy file system slowed down are the usual ones

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        running = facts.running_jobs(history)
        rhythm = measure_rhythm(history)
        if not running or rhythm.interval is None or rhythm.save_time is None:
            return ()
        if min(rhythm.seen_save_count, rhythm.interval_count) < self.min_saves:
            return ()
        is_open = any(facts.is_flagged(history, self.name, job) for job in running)
        if rhythm.save_time <= rhythm.interval * self.share * (HOLD_FACTOR if is_open else 1):
            return ()
        mean = mean_time_between_interruptions(history.interruptions, running[0].node_count)
        optimum = daly_optimum(rhythm.save_time, mean)
        evidence: dict[str, Evidence] = {
            "interval_seconds": seconds(rhythm.interval),
            "save_seconds": seconds(rhythm.save_time),
            "share": round(rhythm.save_time / rhythm.interval, 3),
            "optimum_seconds": seconds(optimum),
            "mean_time_between_interruptions_seconds": seconds(mean),
        }
        advice = (
            f"Saving takes {rhythm.save_time / rhythm.interval:.0%} of the time. Save less often: about every "
            f"{format_duration(optimum)} would lose least on this cluster."
        )
        return [Speaker(self.name, history).say(job, Severity.INFO, evidence, advice) for job in running]
