"""Notify administrators when the rate limit on mail delays notices to users."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ckptd.core.model import RunKey, Severity
from ckptd.core.notices.notice import Notice, NoticeKind, Recipient
from ckptd.core.notices.topic import hash_parts

HELD_BACK = "mail-held-back"
REPORT_INTERVAL = timedelta(hours=6)
NAMED_RULES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class DelayedNotices:
    """Notices that are due but delayed by the rate limit."""

    notices_by_rule: Mapping[str, int]
    people_count: int


def plan_rate_limit_notices(
    cluster: str, admins: Iterable[str], held: DelayedNotices, max_per_hour: int, now: datetime
) -> tuple[Notice, ...]:
    """Return one notice for each administrator; calls within the same six hours return the same notices."""
    ranked = sorted(held.notices_by_rule.items(), key=lambda each: (-each[1], each[0]))
    period = int(now.timestamp() // REPORT_INTERVAL.total_seconds())
    return tuple(
        Notice(
            cluster=cluster,
            recipient=Recipient("mail", admin),
            is_for_admin=True,
            kind=NoticeKind.OPENED,
            rule=HELD_BACK,
            severity=Severity.CRITICAL,
            topic=hash_parts(HELD_BACK, cluster),
            thread=hash_parts(HELD_BACK, cluster),
            edge=f"{NoticeKind.OPENED}:{HELD_BACK}:{hash_parts(cluster, period)}",
            created_at=now,
            due_at=now,
            run=RunKey(cluster, 0, ""),
            user="",
            evidence={
                "mails_in_an_hour": max_per_hour,
                "people_waiting": held.people_count,
                "notices_waiting": sum(held.notices_by_rule.values()),
                "most_of_them": [f"{rule}: {count:,}" for rule, count in ranked[:NAMED_RULES]],
            },
        )
        for admin in admins
    )
