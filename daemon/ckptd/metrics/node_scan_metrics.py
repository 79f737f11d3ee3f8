"""Metrics of steps that scan locations which only a job's nodes see."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from ckptd.metrics.metric_families import counter, counters


def collect_node_scans(steps: Mapping[str, int], seconds: float) -> Iterator[Metric]:
    """Yield the steps since the daemon started, and the time that they took."""
    yield counters(
        "ckptd_node_scans",
        "Scans of locations that only a job's nodes see, by result: found, failed, or not run if Slurm or the "
        "configuration refused the step.",
        ("result",),
        {(result,): count for result, count in steps.items()},
    )
    yield counter(
        "ckptd_node_scan_seconds", "Time that steps in users' jobs took, from srun's start to its end.", seconds
    )
