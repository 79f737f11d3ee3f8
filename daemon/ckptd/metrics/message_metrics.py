"""Metrics of the messages sent through mail and other channels."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from ckptd.metrics.metric_families import counters


def collect_messages(by_result: Mapping[tuple[str, str], int]) -> Iterator[Metric]:
    """Yield the messages since the daemon started, by channel and result."""
    yield counters(
        "ckptd_messages",
        "Messages handed to a channel, by result: sent, refused (permanently), deferred or unreachable (retried "
        "later), uncertain (possibly accepted; sent again with the same message id).",
        ("channel", "result"),
        {(channel, result): count for (channel, result), count in by_result.items()},
    )
