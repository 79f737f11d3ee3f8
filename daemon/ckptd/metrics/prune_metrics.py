"""The metrics of pruning and of the trash: what was done, what is held, and what stands still and why."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from ckptd.core.fleet.prune_totals import Pruned
from ckptd.metrics.families import Labels, counters, gauge, gauges


def collect_pruned(pruned: Pruned) -> Iterator[Metric]:
    """Give what pruning did since the start, what it holds, and whether it goes on."""
    yield from _collect_acts(pruned)
    yield from _collect_trash(pruned)
    yield from _collect_plans(pruned)
    yield from _collect_stops(pruned)
    if pruned.stepped_at:
        yield gauge(
            "ckptd_last_prune_timestamp_seconds",
            "When pruning last did a step, in seconds since the epoch.",
            pruned.stepped_at.timestamp(),
        )
        yield gauge(
            "ckptd_last_prune_duration_seconds",
            "Time that the last step of pruning took.",
            pruned.step_duration.total_seconds(),
        )


def _collect_plans(pruned: Pruned) -> Iterator[Metric]:
    yield gauges(
        "ckptd_prune_planned_checkpoints",
        "Checkpoints that no rule keeps, as of the last looks, by the mode of their policy; under enforce they wait "
        "for a guard, a cap or a brake.",
        ("mode",),
        {(mode,): going.count for mode, going in pruned.going.items()},
    )
    yield gauges(
        "ckptd_prune_planned_bytes",
        "Size of the checkpoints that no rule keeps, by the mode of their policy.",
        ("mode",),
        {(mode,): going.size_bytes for mode, going in pruned.going.items()},
    )


def _collect_stops(pruned: Pruned) -> Iterator[Metric]:
    yield gauges(
        "ckptd_prune_stopped",
        "Whether nothing at all is removed for now (1), by reason: errors of several users, or a clock that jumped.",
        ("reason",),
        {("errors",): int(pruned.is_braked), ("clock",): int(pruned.is_clock_doubted)},
    )
    yield gauge(
        "ckptd_prune_stopped_users",
        "Users of whom nothing is removed for now, because removals of theirs failed.",
        pruned.braked_user_count,
    )
    yield gauge(
        "ckptd_prune_doubtful_runs",
        "Runs left alone because it is not known what an act on their files came to.",
        pruned.doubtful_run_count,
    )


def _collect_acts(pruned: Pruned) -> Iterator[Metric]:
    results: Counter[Labels] = Counter()
    reasons: Counter[Labels] = Counter()
    for (action, result, cause), count in pruned.acts.items():
        results[action, result] += count
        if cause:
            reasons[action, cause] += count
    yield counters(
        "ckptd_prune_acts",
        "Acts on users' checkpoints by the daemon and by people's commands: prune moves to the trash, restore brings "
        "back, empty deletes for good; by how they ended: moved, restored and deleted, or else.",
        ("action", "result"),
        dict(results),
    )
    yield counters(
        "ckptd_prune_unfinished_acts",
        "Acts on users' checkpoints that were refused or failed, by the reason: what was found, or the file system.",
        ("action", "reason"),
        dict(reasons),
    )
    yield counters(
        "ckptd_prune_act_bytes",
        "Bytes of the checkpoints that were moved to the trash (prune), brought back (restore) or deleted from it "
        "(empty: this is what was freed).",
        ("action",),
        {(action,): size_bytes for action, size_bytes in pruned.act_bytes.items()},
    )


def _collect_trash(pruned: Pruned) -> Iterator[Metric]:
    held = pruned.held
    yield gauge("ckptd_trash_checkpoints", "Checkpoints that lie in the trash.", held.count)
    yield gauge("ckptd_trash_bytes", "Size of the checkpoints that lie in the trash.", held.size_bytes)
    yield gauge(
        "ckptd_trash_overdue_checkpoints",
        "Checkpoints that lie in the trash longer than the site holds them: their policy enforces no longer, or they "
        "could not be deleted.",
        held.overdue_count,
    )
    if held.oldest_at:
        yield gauge(
            "ckptd_trash_oldest_timestamp_seconds",
            "When the oldest checkpoint in the trash was moved there, in seconds since the epoch; absent without one.",
            held.oldest_at.timestamp(),
        )
