"""The times in which nobody looked at the queue, and what is still to be done about them.

Jobs may have come and gone in such a time unseen. Accounting is asked of it in pieces until it has told of all of it;
then the directories of the jobs that it told of are looked for. All of that is on record, so that a crash loses none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.queue import MissedRestarts

MARGIN = timedelta(minutes=1)  # before the last look: clocks differ, and accounting lags
LONGEST_PIECE = timedelta(days=1)  # that accounting is asked about at once


class Gap(NamedTuple):
    """A time in which jobs may have come and gone unseen."""

    since: datetime
    until: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """After how long without a look jobs may have gone unseen, and how far back accounting is asked."""

    after: timedelta = timedelta(minutes=5)  # Slurm's MinJobAge where nobody sets it
    most: timedelta = timedelta(days=7)


def widen(
    gap: Gap | None, polled_at: datetime | None, now: datetime, reach: Reach, missed: Iterable[MissedRestarts] = ()
) -> Gap | None:
    """Return what is to be made up for once the queue was seen at `now`, after the look before at `polled_at`.

    `missed` are executions that the queue says there were, and that accounting could not be asked about.
    """
    since = [each.after or each.key.first_seen_at for each in missed]
    if polled_at is not None and now - polled_at > reach.after:
        since.append(polled_at)
    if since:
        begin = min(since) - MARGIN
        gap = Gap(min(gap.since, begin) if gap else begin, now)
    return bound(gap, now, reach)


def bound(gap: Gap | None, now: datetime, reach: Reach) -> Gap | None:
    """Return the gap without what lies too far back; None where nothing is left of it."""
    if gap is None:
        return None
    since = max(gap.since, now - reach.most)
    return Gap(since, gap.until) if since < gap.until else None


def first_piece(gap: Gap, length: timedelta = LONGEST_PIECE) -> Gap:
    """Return the time to ask about next, the oldest first."""
    return Gap(gap.since, min(gap.until, gap.since + length))


def after(gap: Gap, told_until: datetime) -> Gap | None:
    """Return what is left of a gap that was told until an instant."""
    return Gap(told_until, gap.until) if told_until < gap.until else None
