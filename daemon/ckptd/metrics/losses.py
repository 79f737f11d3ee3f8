"""The metrics of lost work: the ledger's sums, which outlive the daemon."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from ckptd.core.ledger import LossKey, LossTotal
from ckptd.metrics.families import Labels, counters

_UNITS = {
    "seconds": "Time of attempts that ended since their newest usable checkpoint or their start",
    "node_seconds": "The same times the attempt's nodes",
    "cpu_seconds": "The same times the attempt's processors",
    "gpu_seconds": "The same times the attempt's GPUs",
}


def collect_losses(losses: Mapping[LossKey, LossTotal]) -> Iterator[Metric]:
    """Give what was lost since the record began, by cause and partition; completed work is not lost."""
    for unit, meaning in _UNITS.items():
        values: dict[Labels, float] = {
            (cause.value, partition): getattr(total, unit) for (cause, partition), total in losses.items()
        }
        yield counters(f"ckptd_lost_{unit}", f"{meaning}, by cause and partition.", ("cause", "partition"), values)
