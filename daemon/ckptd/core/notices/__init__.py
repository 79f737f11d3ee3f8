"""Who is notified of which flag, when, and how often.

Nothing here is sent. `plan` is asked beside the flags and its notices are recorded with them; `compose` is asked when
a recipient's window has passed and makes one digest of everything that waits for them.
"""

from ckptd.core.notices.address import find_address, find_refused, parse_address
from ckptd.core.notices.address_changes import readdress, readdress_refused, readdress_withdrawn, waits_until
from ckptd.core.notices.digest import (
    SAMPLE,
    Digest,
    DigestEntry,
    EntryStatus,
    TopicCount,
    compose,
    digest_key,
    sample_digest,
    sample_digests,
)
from ckptd.core.notices.notice import (
    UNADDRESSED,
    ChatRoom,
    Notice,
    NoticeFacts,
    NoticeKind,
    NoticeMode,
    NoticePolicy,
    Recipient,
    TopicNotification,
)
from ckptd.core.notices.notice_planning import plan
from ckptd.core.notices.rate_limit_notice import HELD_BACK, REPORT_INTERVAL, DelayedNotices, plan_rate_limit_notices
from ckptd.core.notices.recipients import number_of
from ckptd.core.notices.reminders import plan_repeats
from ckptd.core.notices.topic import list_topics

__all__ = [
    "HELD_BACK",
    "REPORT_INTERVAL",
    "SAMPLE",
    "UNADDRESSED",
    "ChatRoom",
    "DelayedNotices",
    "Digest",
    "DigestEntry",
    "EntryStatus",
    "Notice",
    "NoticeFacts",
    "NoticeKind",
    "NoticeMode",
    "NoticePolicy",
    "Recipient",
    "TopicCount",
    "TopicNotification",
    "compose",
    "digest_key",
    "find_address",
    "find_refused",
    "list_topics",
    "number_of",
    "parse_address",
    "plan",
    "plan_rate_limit_notices",
    "plan_repeats",
    "readdress",
    "readdress_refused",
    "readdress_withdrawn",
    "sample_digest",
    "sample_digests",
    "waits_until",
]
