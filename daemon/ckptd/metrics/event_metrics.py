"""Metrics of events since the daemon started."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from ckptd.core.fleet.event_counts import EventTotals
from ckptd.metrics.metric_families import counter, counters, histogram


def collect_totals(totals: EventTotals) -> Iterator[Metric]:
    """Yield all event counters, and the histograms of saves."""
    yield counter(
        "ckptd_failed_polls", "Polls of the queue that failed or returned implausible results.", totals.failed_polls
    )
    yield counters(
        "ckptd_restarts",
        "Started attempts that are not the first of their run: requeues, next array tasks and resubmissions.",
        ("kind",),
        {(kind.value,): count for kind, count in totals.restarts.items()},
    )
    yield counters(
        "ckptd_ended_attempts",
        "Ended attempts, by cause.",
        ("cause",),
        {(cause.value,): count for cause, count in totals.ended_attempts.items()},
    )
    yield counters(
        "ckptd_opened_flags",
        "Opened flags, by rule and by their severity when they opened.",
        ("rule", "severity"),
        {(rule, severity.value): count for (rule, severity), count in totals.opened_flags.items()},
    )
    yield counters(
        "ckptd_resolved_flags",
        "Resolved flags, by rule.",
        ("rule",),
        {(rule,): count for rule, count in totals.resolved_flags.items()},
    )
    yield from _collect_saves(totals)


def _collect_saves(totals: EventTotals) -> Iterator[Metric]:
    by_format = {
        "ckptd_completed_checkpoints": ("Completed checkpoints, by format.", totals.completed_checkpoints),
        "ckptd_completed_checkpoint_bytes": ("Size of the completed checkpoints.", totals.completed_bytes),
        "ckptd_damaged_checkpoints": ("Checkpoints that were found damaged.", totals.damaged_checkpoints),
    }
    for name, (meaning, counts) in by_format.items():
        yield counters(name, meaning, ("format",), {(kind,): count for kind, count in counts.items()})
    yield histogram(
        "ckptd_checkpoint_save_duration_seconds",
        "Save duration, from the first to the last observed write, of checkpoints that were observed being written.",
        totals.save_seconds,
    )
    yield histogram(
        "ckptd_checkpoint_interval_seconds",
        "Time between consecutive completed checkpoints of the same attempt.",
        totals.interval_seconds,
    )
