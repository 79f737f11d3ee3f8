"""Converts the last report to metrics, with counters of the daemon's own steps."""

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from ckptd.core.fleet.histogram import Distribution
from ckptd.core.fleet.service_memory import ServiceMemory
from ckptd.core.fleet.snapshot import Report
from ckptd.core.runs.lost_work_totals import LossKey, LossTotal
from ckptd.metrics.bounded_names import BoundedNames
from ckptd.metrics.event_metrics import collect_totals
from ckptd.metrics.exposition import Exposition
from ckptd.metrics.flagged_jobs import collect_flagged
from ckptd.metrics.fleet_metrics import collect_fleet
from ckptd.metrics.job_actions import collect_job_actions
from ckptd.metrics.lost_work_metrics import NAMED_ACCOUNTS, NAMED_PARTITIONS, collect_losses
from ckptd.metrics.message_metrics import collect_messages
from ckptd.metrics.metric_families import counters, gauge, histograms
from ckptd.metrics.node_scan_metrics import collect_node_scans
from ckptd.metrics.outbox_metrics import collect_outbox
from ckptd.metrics.prune_metrics import collect_pruned

STEP_BOUNDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class ReportCollector(Collector):
    """Collects all metrics; before the first report, only those of the daemon itself."""

    def __init__(self, version: str, *, started_at: datetime, flagged_limit: int = 0) -> None:
        self._version = version
        self._started_at = started_at
        self._flagged_limit = flagged_limit
        self._report: Report | None = None
        self._lock = threading.Lock()
        self._durations: dict[str, Distribution] = {}
        self._failures: dict[str, int] = defaultdict(int)
        self._is_config_good = True
        self._leadership: tuple[str, bool] | None = None  # the cluster, and whether this daemon acts for it
        self._unrecorded: set[str] = set()  # steps to which the database gave no answer
        self._config_read_at = started_at
        self._memory: ServiceMemory | None = None
        self._certificate_expires_at: datetime | None = None
        self._losses_before: Mapping[LossKey, LossTotal] | None = None  # in the first report
        self._loss_places = BoundedNames(NAMED_PARTITIONS)
        self._loss_accounts = BoundedNames(NAMED_ACCOUNTS)
        self.exposition = Exposition(self, _OperatorMetrics(self), lambda: self._cluster)
        self.exposition.write()

    @property
    def _cluster(self) -> str:
        """Return the name of the cluster; empty while Slurm has not given it."""
        if (report := self._report) is not None:
            return report.cluster
        return self._leadership[0] if self._leadership is not None else ""

    def publish(self, report: Report) -> None:
        """Replace the report; a scrape sees either the old or the new one, never a mixture."""
        if self._losses_before is None:
            self._losses_before = report.losses
        self._report = report
        self.exposition.write()

    def observe_step(self, step: str, duration: timedelta) -> None:
        """Record the duration of a step that did something; visible with the next report."""
        with self._lock:
            known = self._durations.get(step) or Distribution.empty(STEP_BOUNDS)
            self._durations[step] = known.plus([duration.total_seconds()])
            self._failures[step] += 0

    def count_failure(self, step: str) -> None:
        """Count a failed step; visible immediately, because the failed step may be the one that makes reports."""
        with self._lock:
            self._failures[step] += 1
        self.exposition.write()

    def record_database_step(self, step: str, *, is_up: bool) -> None:
        """Record whether the database answered a step; it is up if it answered the last query of every step."""
        with self._lock:
            (self._unrecorded.discard if is_up else self._unrecorded.add)(step)

    def record_leader(self, cluster: str, *, is_leader: bool) -> None:
        """Record whether this daemon acts for its cluster; visible immediately."""
        if self._leadership != (cluster, is_leader):
            self._leadership = (cluster, is_leader)
            self.exposition.write()

    def record_certificate(self, expires_at: datetime | None) -> None:
        """Record when the status page's certificate expires; visible immediately, as a standby makes no reports."""
        if self._certificate_expires_at != expires_at:
            self._certificate_expires_at = expires_at
            self.exposition.write()

    def record_memory(self, memory: ServiceMemory | None) -> None:
        """Record the memory of the service; visible with the next report."""
        self._memory = memory

    def record_reload(self, flagged_limit: int | None, now: datetime) -> None:
        """Record a reload: the new limit of flagged jobs, or None if the configuration is invalid."""
        self._is_config_good = flagged_limit is not None
        if flagged_limit is not None:
            self._flagged_limit = flagged_limit
            self._config_read_at = now
        self.exposition.write()

    def collect(self) -> Iterator[Metric]:
        yield from self._collect_daemon()
        if (report := self._report) is not None:
            yield from _collect_sources(report)
            yield from collect_fleet(report)
            yield from collect_totals(report.totals)
            yield from collect_losses(report.losses, self._loss_places, self._loss_accounts, self._losses_before)
            yield from collect_pruned(report.pruned)
            yield from collect_job_actions(report.job_actions, report.deferred_job_actions)
            yield from collect_node_scans(report.node_scans, report.node_scan_seconds)
            channels = {channel for channel, _ in report.messages_by_result}
            yield from collect_outbox(report.outbox, channels, report.made_at)
            yield from collect_messages(report.messages_by_result)

    def collect_named(self) -> Iterator[Metric]:
        """Yield the metrics that name users' jobs, if the site enabled them."""
        if (report := self._report) is not None:
            yield from collect_flagged(report.open_flags, self._flagged_limit)

    def _collect_daemon(self) -> Iterator[Metric]:
        with self._lock:
            durations, failures, is_database_up = dict(self._durations), dict(self._failures), not self._unrecorded
        yield InfoMetricFamily("ckptd_build", "Version of this daemon.", {"version": self._version})
        yield gauge(
            "ckptd_start_timestamp_seconds",
            "Start time of the daemon, as a Unix timestamp.",
            self._started_at.timestamp(),
        )
        if self._leadership is not None:
            yield gauge(
                "ckptd_leader",
                "Whether this daemon acts for the cluster (1), or waits as a standby or for its lease (0).",
                int(self._leadership[1]),
            )
        if self._memory is not None:
            yield gauge(
                "ckptd_memory_bytes",
                "Memory that the processes of the service need, without caches that the kernel can drop.",
                self._memory.used_bytes,
            )
            yield gauge(
                "ckptd_memory_limit_bytes",
                "Limit of the service's memory: MemoryMax of the unit, or of a slice above it.",
                self._memory.limit_bytes,
            )
        if self._certificate_expires_at is not None:
            yield gauge(
                "ckptd_web_certificate_expiry_timestamp_seconds",
                "When the certificate of the status page expires, as a Unix timestamp.",
                self._certificate_expires_at.timestamp(),
            )
        yield gauge(
            "ckptd_config_last_reload_successful",
            "Whether the last configuration reload succeeded (1) or the previous configuration is still used (0).",
            int(self._is_config_good),
        )
        yield gauge(
            "ckptd_config_last_reload_success_timestamp_seconds",
            "When the current configuration was read, as a Unix timestamp.",
            self._config_read_at.timestamp(),
        )
        yield gauge(
            "ckptd_database_up",
            "Whether the database worked (1) or failed (0) in the daemon's last poll, publish and housekeeping steps.",
            int(is_database_up),
        )
        yield histograms(
            "ckptd_step_duration_seconds",
            "Duration of one step of the daemon: poll queries Slurm, scan-directories scans, decide evaluates the "
            "rules, publish computes the metrics. Steps without work are not counted.",
            "step",
            durations,
        )
        yield counters(
            "ckptd_step_failures",
            "Steps that failed; the log has the error.",
            ("step",),
            {(step,): count for step, count in failures.items()},
        )


class _OperatorMetrics(Collector):
    """The metrics that only operators may read."""

    def __init__(self, whole: ReportCollector) -> None:
        self._whole = whole

    def collect(self) -> Iterator[Metric]:
        return self._whole.collect_named()


def _collect_sources(report: Report) -> Iterator[Metric]:
    """Yield the age of the report and of its sources."""
    yield gauge(
        "ckptd_report_timestamp_seconds",
        "When the fleet metrics were computed, as a Unix timestamp.",
        report.made_at.timestamp(),
    )
    yield gauge(
        "ckptd_slurm_up",
        "Whether the last query to slurmctld succeeded (1) or not (0).",
        0 if report.slurm_trouble else 1,
    )
    if report.polled_at:
        yield gauge(
            "ckptd_last_poll_timestamp_seconds",
            "Time of the last successful poll of the queue, as a Unix timestamp.",
            report.polled_at.timestamp(),
        )
    if report.scanned_at:
        yield gauge(
            "ckptd_last_scan_timestamp_seconds",
            "Time of the last scan of a checkpoint directory, as a Unix timestamp.",
            report.scanned_at.timestamp(),
        )
    yield gauge(
        "ckptd_backfill_gap_seconds",
        "Length of the gap between polls whose jobs are not yet recorded from accounting; 0 if there is none.",
        report.backfill_gap.total_seconds(),
    )
    yield gauge(
        "ckptd_mail_limit_reached",
        "Whether mail to users about flags that are not critical waits because of mail.max_per_hour (1) or not (0).",
        int(report.is_mail_limit_reached),
    )
    yield gauge(
        "ckptd_scan_delay_seconds",
        "How long the most overdue directory scan is overdue; 0 if none is.",
        report.scan_delay.total_seconds(),
    )
    yield gauge(
        "ckptd_unknown_directories",
        "Runs whose checkpoint directory could not be read or found.",
        report.unknown_directories,
    )
    yield gauge(
        "ckptd_unreadable_directory_users",
        "Users with a checkpoint directory that could not be read; directories that were not found do not count.",
        report.unreadable_directory_users,
    )
    yield gauge(
        "ckptd_unwatched_directories",
        "Directories that inotify cannot watch; their changes are only found by scans.",
        report.unwatched_directories,
    )
