"""Metrics of lost work: sums over the database, which do not reset when the daemon restarts."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from ckptd.core.runs.lost_work import LossKey, LossTotal
from ckptd.metrics.bounded_names import BoundedNames
from ckptd.metrics.metric_families import OTHER, Labels, counters

NAMED_PARTITIONS = 12  # times the causes times the units: they alone would be thousands of series on some clusters

_UNITS = {
    "seconds": "Work lost by ended attempts: time since their newest usable checkpoint or start, at least",
    "node_seconds": "Lost time, at least, multiplied by the nodes of the attempt",
    "cpu_seconds": "Lost time, at least, multiplied by the CPUs of the attempt",
    "gpu_seconds": "Lost time, at least, multiplied by the GPUs of the attempt",
}
_REDONE_UNITS = {
    "seconds": "Saved work that is computed again because later attempts did not resume from it: at least",
    "node_seconds": "Saved time that is computed again, multiplied by the nodes of the attempt: at least",
    "cpu_seconds": "Saved time that is computed again, multiplied by the CPUs of the attempt: at least",
    "gpu_seconds": "Saved time that is computed again, multiplied by the GPUs of the attempt: at least",
}


def collect_losses(losses: Mapping[LossKey, LossTotal], places: BoundedNames) -> Iterator[Metric]:
    """Yield the lost work since the first record, by cause and partition; completed attempts lose none."""
    weights: defaultdict[str, float] = defaultdict(float)
    for (_, partition), total in losses.items():
        weights[partition] += total.node_seconds
    named = places.assign(weights)
    for unit, meaning in _UNITS.items():
        values: defaultdict[Labels, float] = defaultdict(float)
        for (cause, partition), total in losses.items():
            values[cause.value, partition if partition in named else OTHER] += getattr(total, unit)
        yield counters(f"ckptd_lost_{unit}", f"{meaning}, by cause and partition.", ("cause", "partition"), values)
    for unit, meaning in _REDONE_UNITS.items():
        redone: defaultdict[Labels, float] = defaultdict(float)
        for (cause, _), total in losses.items():
            redone[(cause.value,)] += getattr(total, f"redone_{unit}")
        yield counters(f"ckptd_redone_{unit}", f"{meaning}, by cause of its end.", ("cause",), redone)
