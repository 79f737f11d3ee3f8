"""Metrics of unsent notices."""

from collections.abc import Collection, Iterator
from datetime import datetime

from prometheus_client.core import Metric

from ckptd.core.notices.delivery import Outbox
from ckptd.metrics.metric_families import gauge, gauges


def collect_outbox(outbox: Outbox, channels: Collection[str], now: datetime) -> Iterator[Metric]:
    """Yield the number of unsent notices, also 0 for each of `channels`, and the delay of the most overdue one."""
    yield gauges(
        "ckptd_waiting_notices",
        "Unsent notices, by channel; most wait for the end of their digest's window.",
        ("channel",),
        {(channel,): count for channel, count in (dict.fromkeys(channels, 0) | dict(outbox.waiting)).items()},
    )
    yield gauge("ckptd_due_notices", "Notices that are due to be sent.", outbox.due_count)
    delay = (now - outbox.oldest_due_at).total_seconds() if outbox.oldest_due_at else 0.0
    yield gauge(
        "ckptd_notice_delay_seconds",
        "How long the most overdue notice is overdue; 0 if none is.",
        max(delay, 0.0),
    )
