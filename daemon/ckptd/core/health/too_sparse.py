"""Saves so rarely that an interruption costs more than saving would."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.forecast.optimum import daly_optimum, longest_mean_time, mean_time_between_interruptions
from ckptd.core.health.interface import Speaker, seconds
from ckptd.core.model import Evidence, Finding, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.text.formatting import format_duration

HOLD_FACTOR = 0.8  # of the threshold, once the flag is open


@dataclass(frozen=True, slots=True)
class TooSparse:
    """Holds when the interval is longer than `factor` times Daly's optimum and than `min_interval`.

    To judge, the optimum is taken at its longest: for the save time with what went unseen of it, as looks that come
    late make a save short, and for the longest mean time between interruptions that the data allow. What is advised is
    the likeliest, as by `ckptd advise`. It needs `min_intervals`, and `min_saves` that were seen being written.
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
            mean = mean_time_between_interruptions(history.interruptions, job.node_count)
            longest = daly_optimum(longest_save, longest_mean_time(history.interruptions, job.node_count))
            ease = HOLD_FACTOR if facts.is_flagged(history, self.name, job) else 1
            if rhythm.interval <= max(longest * self.factor, self.min_interval) * ease:
                continue
            optimum = daly_optimum(rhythm.save_time, mean)
            tally = history.interruptions
            evidence: dict[str, Evidence] = {
                "interval_seconds": seconds(rhythm.interval),
                "optimum_seconds": seconds(optimum),
                "save_seconds": seconds(rhythm.save_time),
                "longest_save_seconds": seconds(longest_save),
                "mean_time_between_interruptions_seconds": seconds(mean),
                "interruptions_counted": tally.interruption_count if tally else 0,
                "nodes": job.node_count,
            }
            advice = (
                f"The job saves every {format_duration(rhythm.interval)}, and a save takes "
                f"{format_duration(rhythm.save_time)}. Save more often: about every {format_duration(optimum)} would "
                "lose least when a node fails or the job is preempted."
            )
            findings.append(Speaker(self.name, history).say(job, Severity.INFO, evidence, advice))
        return findings
