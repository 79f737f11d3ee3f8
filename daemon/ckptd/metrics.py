"""The daemon's state for Prometheus: a collector over the last report, which never asks anything at scrape time."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from ckptd.core.report import Report

BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class ReportCollector(Collector):
    """Gives the last report's numbers; before the first one only what ckptd is."""

    def __init__(self, registry: CollectorRegistry, version: str) -> None:
        self._version = version
        self._report: Report | None = None
        self._step_duration = Histogram(
            "ckptd_step_duration_seconds",
            "Time that one step of the cycle took.",
            ["step"],
            buckets=BUCKETS,
            registry=registry,
        )
        registry.register(self)

    def publish(self, report: Report) -> None:
        """Take a new report; scrapes see the old one or the new one, never a mixture."""
        durations = {"poll": report.poll_duration, "scan": report.scan_duration, "decide": report.decide_duration}
        for step, duration in durations.items():
            if duration is not None:
                self._step_duration.labels(step).observe(duration.total_seconds())
        self._report = report

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("ckptd_build", "What this daemon is.", {"version": self._version})
        if (report := self._report) is None:
            return
        up = GaugeMetricFamily(
            "ckptd_slurm_up", "Whether the last query to slurmctld was answered (1) or not (0).", labels=["cluster"]
        )
        up.add_metric([report.cluster], 0 if report.slurm_trouble else 1)
        yield up
        if report.polled_at:
            yield GaugeMetricFamily(
                "ckptd_last_poll_timestamp_seconds",
                "When the queue was last read whole, in seconds since the epoch.",
                report.polled_at.timestamp(),
            )
        if report.scanned_at:
            yield GaugeMetricFamily(
                "ckptd_last_scan_timestamp_seconds",
                "When a checkpoint directory was last read, in seconds since the epoch.",
                report.scanned_at.timestamp(),
            )
        yield from _counts(report)
        yield from _checkpoints(report)


def _counts(report: Report) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("ckptd_jobs", "Jobs in the queue by Slurm's state.", labels=["state"])
    for state, count in sorted(report.jobs_by_state.items()):
        jobs.add_metric([state], count)
    yield jobs
    runs = GaugeMetricFamily(
        "ckptd_runs", "Runs in the queue by how their checkpoint directory was found.", labels=["located_by"]
    )
    for locator, count in sorted(report.runs_by_locator.items()):
        runs.add_metric([locator], count)
    yield runs
    flags = GaugeMetricFamily("ckptd_open_flags", "Open flags by rule and severity.", labels=["rule", "severity"])
    for (rule, severity), count in sorted(report.flags_by_rule.items()):
        flags.add_metric([rule, severity], count)
    yield flags
    yield GaugeMetricFamily(
        "ckptd_unknown_directories", "Watched directories that could not be read.", report.unknown_directories
    )
    yield GaugeMetricFamily(
        "ckptd_unwatched_directories",
        "Directories whose changes only scans can see, not inotify.",
        report.unwatched_directories,
    )


def _checkpoints(report: Report) -> Iterator[Metric]:
    checkpoints = GaugeMetricFamily(
        "ckptd_checkpoints", "Checkpoints of runs in the queue, by format and state.", labels=["format", "state"]
    )
    for (name, state), count in sorted(report.checkpoints_by_format.items()):
        checkpoints.add_metric([name, state], count)
    yield checkpoints
    size = GaugeMetricFamily(
        "ckptd_checkpoint_bytes", "Size of the checkpoints of runs in the queue, by format.", labels=["format"]
    )
    for name, size_bytes in sorted(report.bytes_by_format.items()):
        size.add_metric([name], size_bytes)
    yield size
