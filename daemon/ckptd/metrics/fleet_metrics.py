"""Metrics of the current state of the cluster: jobs, runs, checkpoints, unsaved work, space."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import astuple
from operator import attrgetter

from prometheus_client.core import Metric

from ckptd.core.fleet.fleet_totals import FleetTotals
from ckptd.core.fleet.snapshot import Report
from ckptd.metrics.bounded_names import heaviest
from ckptd.metrics.metric_families import OTHER, Labels, gauge, gauges, histogram

NAMED_PARTITIONS = 30
NAMED_FILE_SYSTEMS = 20  # automounted homes are one each

_SHARES = {
    "jobs": ("ckptd_running_jobs", "Number of running jobs."),
    "nodes": ("ckptd_running_nodes", "Nodes of running jobs."),
    "cpus": ("ckptd_running_cpus", "CPUs of running jobs."),
    "gpus": ("ckptd_running_gpus", "GPUs of running jobs."),
    "unsaved_node_seconds": (
        "ckptd_unsaved_node_seconds",
        "Node time since the newest complete checkpoint or the start of each running job: lost if all stopped now.",
    ),
    "unsaved_cpu_seconds": (
        "ckptd_unsaved_cpu_seconds",
        "CPU time since the newest complete checkpoint or the start of each running job: lost if all stopped now.",
    ),
    "unsaved_gpu_seconds": (
        "ckptd_unsaved_gpu_seconds",
        "GPU time since the newest complete checkpoint or the start of each running job: lost if all stopped now.",
    ),
}


def collect_fleet(report: Report) -> Iterator[Metric]:
    """Yield all gauges of jobs, runs and checkpoints."""
    fleet = report.fleet
    yield gauges(
        "ckptd_jobs",
        "Jobs in the queue, by Slurm state; array tasks count individually.",
        ("state",),
        {(state,): count for state, count in report.jobs_by_state.items()},
    )
    yield gauges(
        "ckptd_runs",
        "Runs in the queue, by how their checkpoint directory was found; none: it was not found.",
        ("located_by",),
        {(locator,): count for locator, count in report.runs_by_locator.items()},
    )
    yield gauges(
        "ckptd_open_flags",
        "Open flags, by rule and severity.",
        ("rule", "severity"),
        {(rule, severity.value): count for (rule, severity), count in report.flags_by_rule.items()},
    )
    yield gauges(
        "ckptd_flagged_users",
        "Users with an open flag, by rule.",
        ("rule",),
        {(rule,): count for rule, count in report.flagged_users_by_rule.items()},
    )
    yield gauge("ckptd_users", "Number of users with a run in the queue.", fleet.user_count)
    yield gauge(
        "ckptd_recent_requeues",
        "Requeued jobs that restarted within the last 30 minutes; at most 20 per user are counted.",
        report.recent_requeues,
    )
    yield from _collect_running(fleet)
    yield from _collect_checkpoints(fleet)


def _collect_running(fleet: FleetTotals) -> Iterator[Metric]:
    yield gauges(
        "ckptd_running_runs",
        "Runs with a running job, by the state of their newest finished checkpoint; none: no checkpoint yet, "
        "writing: only a first one that is being written, unknown: the directory could not be read.",
        ("newest",),
        {(newest,): count for newest, count in fleet.runs_by_newest.items()},
    )
    partitions = fleet.shares_by_partition
    named = heaviest({partition: share.nodes for partition, share in partitions.items()}, NAMED_PARTITIONS)
    for part, (metric, meaning) in _SHARES.items():
        value = attrgetter(part)
        sums: defaultdict[Labels, float] = defaultdict(float)
        for partition, share in partitions.items():
            sums[partition if partition in named else OTHER,] += value(share)
        yield gauges(metric, meaning, ("partition",), sums)
    yield histogram(
        "ckptd_checkpoint_age_seconds",
        "Current age of the newest complete checkpoint of each run with a running job (a gauge: do not use rate()).",
        fleet.age_seconds,
    )
    yield histogram(
        "ckptd_time_left_seconds",
        "Current time left until the limit of each running job (a gauge: do not use rate()).",
        fleet.left_seconds,
    )
    yield gauge("ckptd_running_jobs_without_limit", "Running jobs without a time limit.", fleet.jobs_without_limit)


def _collect_checkpoints(fleet: FleetTotals) -> Iterator[Metric]:
    yield gauges(
        "ckptd_checkpoints",
        "Checkpoints of runs in the queue, by format and state.",
        ("format", "state"),
        {(name, state): count for (name, state), count in fleet.checkpoints_by_format.items()},
    )
    yield gauges(
        "ckptd_checkpoint_bytes",
        "Size of the checkpoints of runs in the queue, by format.",
        ("format",),
        {(name,): size_bytes for name, size_bytes in fleet.bytes_by_format.items()},
    )
    yield from _collect_space(fleet)


def _collect_space(fleet: FleetTotals) -> Iterator[Metric]:
    fullest = sorted(fleet.space_by_filesystem.items(), key=lambda each: (each[1].free_ratio, astuple(each[0])))
    named = {(system.mount_point, system.type): space for system, space in fullest[:NAMED_FILE_SYSTEMS]}
    yield gauges(
        "ckptd_filesystem_free_bytes",
        f"Free space on the file systems that hold checkpoint directories; on the {NAMED_FILE_SYSTEMS} fullest ones.",
        ("mountpoint", "type"),
        {names: space.free_bytes for names, space in named.items()},
    )
    yield gauges(
        "ckptd_filesystem_free_ratio",
        f"Free share of the file systems that hold checkpoint directories; of the {NAMED_FILE_SYSTEMS} fullest ones.",
        ("mountpoint", "type"),
        {names: space.free_ratio for names, space in named.items()},
    )
