"""Delays mail to users above the limits per hour, of the site and of each user, and notifies the administrators."""

import logging
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core import notices
from ckptd.core.notices.delivery import MailRestriction, MessageClaim
from ckptd.steps.parts import SendParts
from ckptd.store.outbox import SentMail

log = logging.getLogger("ckptd")

HOUR = timedelta(hours=1)
FOR_ALL = 0.8  # of the site's limit; the rest is for critical flags
FOR_KNOWN = 0.9  # of it; the rest is for critical flags of users who got no mail within the hour


@dataclass(kw_only=True)
class MailRateLimit:
    """Counts sent mail, including mail sent before a restart, which is read from the database."""

    _mailed: deque[SentMail] | None = None
    _reported_at: datetime | None = field(default=None)
    _reported_owners: dict[int, datetime] = field(default_factory=dict)

    def restrict(self, post: SendParts, now: datetime) -> MailRestriction | None:
        """Return which mail may still be sent now; None: all."""
        if self._mailed is None:
            mailed = post.store.outbox.list_mailed(post.cluster, now - HOUR)
            self._mailed = deque(each for each in mailed if each.recipient not in post.policy.admins)
        while self._mailed and self._mailed[0].sent_at <= now - HOUR:
            self._mailed.popleft()
        counts = Counter(owner for each in self._mailed for owner in each.owners)
        full_owners = frozenset(owner for owner, count in counts.items() if count >= post.max_per_user)
        self._report_owners(full_owners, post.max_per_user, now)
        sent_count = len(self._mailed)
        found = MailRestriction(
            exempt=post.policy.admins,
            is_full=sent_count >= post.max_per_hour,
            is_for_critical=sent_count >= post.max_per_hour * FOR_ALL,
            full_owners=full_owners if sent_count < post.max_per_hour * FOR_KNOWN else frozenset(counts),
        )
        return found if found.is_for_critical or found.full_owners else None

    def count_sent(self, claim: MessageClaim, admins: Collection[str], now: datetime) -> None:
        """Count a sent message."""
        address = claim.recipient.address
        if claim.recipient.channel == "mail" and address not in admins and self._mailed is not None:
            self._mailed.append(SentMail(address, now, frozenset(each.run.uid for each in claim.notices)))

    def _report_owners(self, full_owners: Collection[int], max_per_user: int, now: datetime) -> None:
        """Log each user at the limit, once an hour."""
        self._reported_owners = {uid: at for uid, at in self._reported_owners.items() if now - at < HOUR}
        for uid in sorted(full_owners - self._reported_owners.keys()):
            log.warning("mail limit of uid %d reached: %d mails within an hour; delaying its others", uid, max_per_user)
            self._reported_owners[uid] = now

    def record_summary(self, post: SendParts, now: datetime) -> bool:
        """Record a summary of the delayed mail for the administrators, unless they got one recently."""
        if self._reported_at is not None and now - self._reported_at < notices.REPORT_INTERVAL:
            return False
        admins = post.policy.admins
        held = post.store.outbox.read_held(post.cluster, admins, now)
        if not held.people_count:
            return False
        log.warning(
            "mail rate limit reached: %d mails sent within an hour; delaying mail to %d people",
            len(self._mailed or ()),
            held.people_count,
        )
        found = notices.plan_rate_limit_notices(post.cluster, sorted(admins), held, post.max_per_hour, now)
        post.store.outbox.record(found)
        self._reported_at = now
        return True
