"""Delays mail to users above the site's limit per hour, and notifies the administrators."""

import logging
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core import notices
from ckptd.core.notices import Recipient
from ckptd.store.store import Store

log = logging.getLogger("ckptd")

HOUR = timedelta(hours=1)


@dataclass(kw_only=True)
class MailRateLimit:
    """Counts sent mail, including mail sent before a restart, which is read from the database."""

    _mailed_at: deque[datetime] | None = None
    _reported_at: datetime | None = field(default=None)

    def is_on(self, store: Store, cluster: str, admins: Collection[str], max_per_hour: int, now: datetime) -> bool:
        """Whether no more mail to users may be sent now."""
        if self._mailed_at is None:
            mailed = store.outbox.list_mailed(cluster, now - HOUR)
            self._mailed_at = deque(mailed_at for address, mailed_at in mailed if address not in admins)
        while self._mailed_at and self._mailed_at[0] <= now - HOUR:
            self._mailed_at.popleft()
        return len(self._mailed_at) >= max_per_hour

    def count_sent(self, recipient: Recipient, admins: Collection[str], now: datetime) -> None:
        """Count a sent message."""
        if recipient.channel == "mail" and recipient.address not in admins and self._mailed_at is not None:
            self._mailed_at.append(now)

    def record_summary(
        self, store: Store, cluster: str, admins: Collection[str], max_per_hour: int, now: datetime
    ) -> None:
        """Record a summary of the delayed mail for the administrators, unless they got one recently."""
        if self._reported_at is not None and now - self._reported_at < notices.REPORT_INTERVAL:
            return
        held = store.outbox.read_held(cluster, admins, now)
        if not held.people_count:
            return
        log.warning(
            "mail rate limit reached: %d mails sent within an hour; delaying mail to %d people",
            max_per_hour,
            held.people_count,
        )
        store.outbox.record(notices.plan_rate_limit_notices(cluster, sorted(admins), held, max_per_hour, now))
        self._reported_at = now
