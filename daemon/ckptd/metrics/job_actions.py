"""Metrics of actions on jobs."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from ckptd.core.job_actions.action_policy import ActionKind, DeferReason
from ckptd.metrics.metric_families import counters, gauges


def collect_job_actions(
    counts: Mapping[tuple[ActionKind, str], int], deferred: Mapping[tuple[ActionKind, DeferReason], int]
) -> Iterator[Metric]:
    """Yield the actions since the daemon started, and the deferred ones."""
    yield counters(
        "ckptd_job_actions",
        "Actions on jobs, by action (signal-job, hold-job, write-summary, resubmit-job) and result: done, "
        "not-needed, failed.",
        ("action", "result"),
        {(kind.value, result): count for (kind, result), count in counts.items()},
    )
    yield gauges(
        "ckptd_deferred_job_actions",
        "Deferred actions on jobs, by reason: limit (actions.max_per_hour is reached) or slurm (Slurm does not "
        "answer).",
        ("action", "reason"),
        {(kind.value, reason.value): count for (kind, reason), count in deferred.items()},
    )
