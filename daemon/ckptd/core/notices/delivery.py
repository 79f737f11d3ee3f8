"""The values of the outbox: claims, results of sending, and the times of retries."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from ckptd.core.notices import Notice, Recipient

FIRST_WAIT = timedelta(minutes=1)
LONGEST_WAIT = timedelta(hours=1)
LONGEST_WAIT_IF_UNCERTAIN = timedelta(days=1)  # each try may be one more copy for the recipient


class NoticeState(StrEnum):
    """State of a notice."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    SENT = "sent"
    REFUSED = "refused"  # the relay or channel refused it permanently
    GIVEN_UP = "given-up"  # it was tried for too long
    MUTED = "muted"  # its user does not want it
    DROPPED = "dropped"  # resolved before it was sent


class SendResult(StrEnum):
    """Result of sending one message."""

    SENT = "sent"
    DEFERRED = "deferred"  # not accepted; a later try may succeed
    UNREACHABLE = "unreachable"  # not accepted, and other messages would fail, too
    UNCERTAIN = "uncertain"  # it may have been accepted: only the very same message may be sent again
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True, slots=True)
class SendOutcome:
    """A result with its reason."""

    result: SendResult
    reason: str | None = None
    is_about_address: bool = False  # it was refused because nobody has that address: another might do


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageClaim:
    """The notices of one message, claimed by one sender. `message_key` is the same in every claim."""

    recipient: Recipient
    message_key: str
    claimed_at: datetime
    try_count: int  # this one included
    notices: tuple[Notice, ...]
    may_have_arrived: bool = False  # an earlier try was uncertain or interrupted


@dataclass(frozen=True, kw_only=True, slots=True)
class MailRestriction:
    """The mail that may be sent now, because a limit per hour is reached. Other channels are not restricted."""

    exempt: Collection[str] = ()  # addresses that may get mail in any case: the administrators'
    is_full: bool = False  # nobody else may
    is_for_critical: bool = False  # others only about critical flags
    full_owners: frozenset[int] = frozenset()  # and none because of these users' jobs


@dataclass(frozen=True, kw_only=True, slots=True)
class Outbox:
    """The waiting notices. `oldest_due_at` is when the most overdue one should have been sent."""

    waiting: Mapping[str, int] = field(default_factory=dict)  # by channel
    due_count: int = 0
    oldest_due_at: datetime | None = None


def next_try_at(try_count: int, now: datetime, *, is_uncertain: bool = False) -> datetime:
    """Return the time of the next try: after one minute, then twice as long each time, at most an hour or a day."""
    longest = LONGEST_WAIT_IF_UNCERTAIN if is_uncertain else LONGEST_WAIT
    return now + min(FIRST_WAIT * (1 << min(try_count - 1, 11)), longest)
