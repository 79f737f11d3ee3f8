"""The metrics of what happened since the daemon started."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from ckptd.core.fleet.event_counts import Totals
from ckptd.metrics.families import counter, counters, histogram


def collect_totals(totals: Totals) -> Iterator[Metric]:
    """Give all counters, and the histograms of saves."""
    yield counter("ckptd_failed_polls", "Looks at the queue that failed or could not be believed.", totals.failed_polls)
    yield counters(
        "ckptd_restarts",
        "Attempts that began and are not the first of their run: requeued, next task of an array, or submitted again.",
        ("kind",),
        {(kind.value,): count for kind, count in totals.restarts.items()},
    )
    yield counters(
        "ckptd_ended_attempts",
        "Attempts that ended, by cause.",
        ("cause",),
        {(cause.value,): count for cause, count in totals.ended_attempts.items()},
    )
    yield counters(
        "ckptd_opened_flags",
        "Flags that opened, by rule and by the severity that they had then.",
        ("rule", "severity"),
        {(rule, severity.value): count for (rule, severity), count in totals.opened_flags.items()},
    )
    yield counters(
        "ckptd_resolved_flags",
        "Flags that were open and have resolved, by rule.",
        ("rule",),
        {(rule,): count for rule, count in totals.resolved_flags.items()},
    )
    yield from _collect_saves(totals)


def _collect_saves(totals: Totals) -> Iterator[Metric]:
    by_format = {
        "ckptd_completed_checkpoints": ("Checkpoints that jobs completed, by format.", totals.completed_checkpoints),
        "ckptd_completed_checkpoint_bytes": ("Size of the checkpoints that jobs completed.", totals.completed_bytes),
        "ckptd_damaged_checkpoints": ("Checkpoints of jobs that turned out damaged.", totals.damaged_checkpoints),
    }
    for name, (meaning, counts) in by_format.items():
        yield counters(name, meaning, ("format",), {(kind,): count for kind, count in counts.items()})
    yield histogram(
        "ckptd_checkpoint_save_duration_seconds",
        "Time from the first byte that was seen of a checkpoint to its last, of those that were seen being written.",
        totals.save_seconds,
    )
    yield histogram(
        "ckptd_checkpoint_interval_seconds",
        "Time between a completed checkpoint and the one before it in the same attempt.",
        totals.interval_seconds,
    )
