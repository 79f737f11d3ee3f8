"""Detect a job that checkpoints so often that saving takes a noticeable share of its run time."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.forecast.optimum import daly_optimum, mean_time_between_interruptions
from ckptd.core.health.interface import FindingBuilder, bounded, seconds
from ckptd.core.model import Evidence, Finding, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import measure_rhythm

HOLD_FACTOR = 0.8  # of the threshold, once the flag is open


@dataclass(frozen=True, slots=True)
class TooFrequent:
    """Flag a job that spends more than `share` of its run time on saving, once `min_saves` intervals are known.

    To open the flag, the rule uses the time during which scans saw checkpoints being written. This is a lower bound:
    occasional scans see slow saves more often than typical ones. An open flag uses the estimated save duration, so
    that it does not resolve only because scans are late for a while.
    """

    name: ClassVar[str] = "too-frequent"
    share: float = bounded(0.10, least=0, most=1)
    min_saves: int = 8

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        running = facts.running_jobs(history)
        rhythm = measure_rhythm(history)
        is_open = any(facts.is_flagged(history, self.name, job) for job in running)
        save_time = rhythm.save_time if is_open else rhythm.least_save_time
        if not running or rhythm.interval is None or not save_time or rhythm.interval_count < self.min_saves:
            return ()
        if save_time <= rhythm.interval * self.share * (HOLD_FACTOR if is_open else 1):
            return ()
        mean = mean_time_between_interruptions(history.context.interruptions, running[0].node_count)
        optimum = daly_optimum(rhythm.save_time or save_time, mean)
        share = min((rhythm.least_save_time or timedelta(0)) / rhythm.interval, 1.0)  # above while habits change
        evidence: dict[str, Evidence] = {
            "interval_seconds": seconds(rhythm.interval),
            "save_seconds": seconds(rhythm.save_time),
            "share": round(share, 3),
            "optimum_seconds": seconds(optimum),
            "mean_time_between_interruptions_seconds": seconds(mean),
        }
        return [FindingBuilder(self.name, history).make_finding(job, Severity.INFO, evidence) for job in running]
