"""Detect a job that checkpoints so rarely that interruptions cost more than additional saving would."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.forecast.optimum import daly_optimum, longest_mean_time, mean_time_between_interruptions
from ckptd.core.health.interface import FindingBuilder, seconds
from ckptd.core.model import Evidence, Finding, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import measure_rhythm

HOLD_FACTOR = 0.8  # of the threshold, once the flag is open


@dataclass(frozen=True, slots=True)
class TooSparse:
    """Flag a checkpoint interval longer than `factor` times Daly's optimum and than `min_interval`.

    The threshold uses the longest optimum that the data allow: the save duration includes the time that scans may have
    missed, and the mean time between interruptions is the longest plausible one. The advice uses the likeliest values,
    as `ckptd advise` does. The rule needs `min_intervals` intervals and `min_saves` checkpoints whose writing was seen.
    """

    name: ClassVar[str] = "too-sparse"
    factor: float = 2.0
    min_interval: timedelta = timedelta(minutes=15)
    min_intervals: int = 3
    min_saves: int = 3

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        running = facts.running_jobs(history)
        rhythm = measure_rhythm(history)
        if not running or not rhythm.save_time or rhythm.interval is None:
            return ()
        if rhythm.interval_count < self.min_intervals or rhythm.seen_save_count < self.min_saves:
            return ()
        longest_save = rhythm.save_time + (rhythm.unseen_time or timedelta(0))
        findings: list[Finding] = []
        for job in running:
            mean = mean_time_between_interruptions(history.context.interruptions, job.node_count)
            longest = daly_optimum(longest_save, longest_mean_time(history.context.interruptions, job.node_count))
            ease = HOLD_FACTOR if facts.is_flagged(history, self.name, job) else 1
            if rhythm.interval <= max(longest * self.factor, self.min_interval) * ease:
                continue
            optimum = daly_optimum(rhythm.save_time, mean)
            tally = history.context.interruptions
            evidence: dict[str, Evidence] = {
                "interval_seconds": seconds(rhythm.interval),
                "optimum_seconds": seconds(optimum),
                "save_seconds": seconds(rhythm.save_time),
                "longest_save_seconds": seconds(longest_save),
                "mean_time_between_interruptions_seconds": seconds(mean),
                "interruptions_counted": tally.interruption_count if tally else 0,
                "nodes": job.node_count,
            }
            findings.append(FindingBuilder(self.name, history).make_finding(job, Severity.INFO, evidence))
        return findings
