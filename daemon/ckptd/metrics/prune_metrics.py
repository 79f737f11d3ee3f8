"""Metrics of pruning and of the trash: operations, contents, and what is paused and why."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from ckptd.core.fleet.prune_totals import PruneTotals
from ckptd.metrics.metric_families import Labels, counters, gauge, gauges


def collect_pruned(pruned: PruneTotals) -> Iterator[Metric]:
    """Yield the operations since the daemon started, the content of the trash, and whether pruning is paused."""
    yield from _collect_operations(pruned)
    yield from _collect_trash(pruned)
    yield from _collect_plans(pruned)
    yield from _collect_stops(pruned)
    if pruned.stepped_at:
        yield gauge(
            "ckptd_last_prune_timestamp_seconds",
            "Time of the last pruning step, or of the start of the first one, as a Unix timestamp.",
            pruned.stepped_at.timestamp(),
        )
        yield gauge(
            "ckptd_last_prune_duration_seconds",
            "Duration of the last pruning step.",
            pruned.step_duration.total_seconds(),
        )


def _collect_plans(pruned: PruneTotals) -> Iterator[Metric]:
    yield gauges(
        "ckptd_prune_planned_checkpoints",
        "Checkpoints that no rule keeps, as of the last scans, by the mode of their policy; in mode enforce they are "
        "deferred by a guard, a cap or a circuit breaker.",
        ("mode",),
        {(mode,): going.count for mode, going in pruned.going.items()},
    )
    yield gauges(
        "ckptd_prune_planned_bytes",
        "Size of the checkpoints that no rule keeps, by the mode of their policy.",
        ("mode",),
        {(mode,): going.size_bytes for mode, going in pruned.going.items()},
    )


def _collect_stops(pruned: PruneTotals) -> Iterator[Metric]:
    yield gauges(
        "ckptd_prune_paused",
        "Whether all removals are paused (1), by reason: errors (removals of several users failed) or clock (it "
        "jumped, or differs from that of Slurm).",
        ("reason",),
        {("errors",): int(pruned.is_breaker_open), ("clock",): int(pruned.is_clock_unreliable)},
    )
    yield gauge(
        "ckptd_prune_paused_users",
        "Users whose removals are paused because several of them failed within error_window.",
        pruned.paused_user_count,
    )
    yield gauge(
        "ckptd_prune_unconfirmed_runs",
        "Runs that pruning skips because the outcome of an earlier removal is unknown.",
        pruned.unconfirmed_run_count,
    )


def _collect_operations(pruned: PruneTotals) -> Iterator[Metric]:
    results: Counter[Labels] = Counter()
    reasons: Counter[Labels] = Counter()
    for (action, result, cause), count in pruned.operations.items():
        results[action, result] += count
        if cause:
            reasons[action, cause] += count
    yield counters(
        "ckptd_prune_operations",
        "Operations on users' checkpoints by the daemon and by commands: prune moves to the trash, restore moves "
        "back, empty deletes permanently; by result: moved, restored, deleted, or the kind of failure.",
        ("action", "result"),
        dict(results),
    )
    yield counters(
        "ckptd_prune_failures",
        "Operations on users' checkpoints that were refused or failed, by reason.",
        ("action", "reason"),
        dict(reasons),
    )
    yield counters(
        "ckptd_prune_operation_bytes",
        "Size of the checkpoints moved to the trash (prune), restored from it (restore) or deleted from it "
        "(empty: only this frees space).",
        ("action",),
        {(action,): size_bytes for action, size_bytes in pruned.operation_bytes.items()},
    )


def _collect_trash(pruned: PruneTotals) -> Iterator[Metric]:
    held = pruned.held
    yield gauge("ckptd_trash_checkpoints", "Checkpoints in the trash.", held.count)
    yield gauge("ckptd_trash_bytes", "Size of the checkpoints in the trash.", held.size_bytes)
    yield gauge(
        "ckptd_trash_overdue_checkpoints",
        "Checkpoints in the trash that should have been deleted: their policy is no longer in mode enforce, or "
        "their deletion failed.",
        held.overdue_count,
    )
    if held.oldest_at:
        yield gauge(
            "ckptd_trash_oldest_timestamp_seconds",
            "When the oldest checkpoint in the trash was moved there, as a Unix timestamp; absent if it is empty.",
            held.oldest_at.timestamp(),
        )
