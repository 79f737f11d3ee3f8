"""Gaps between polls, in which jobs may have started and ended.

A gap is backfilled from accounting in parts; then the directories of the found jobs are searched for. The progress is
recorded, so that a crash loses nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.queue import MissedRestarts

MARGIN = timedelta(minutes=1)  # before the last poll: clocks differ, and accounting lags
LONGEST_PIECE = timedelta(days=1)  # that accounting is asked about at once


class PollGap(NamedTuple):
    """A time range in which jobs may have started and ended without a poll."""

    since: datetime
    until: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class BackfillWindow:
    """The duration without a poll that makes a gap, and how far back to backfill."""

    after: timedelta = timedelta(minutes=5)  # Slurm's MinJobAge where nobody sets it
    most: timedelta = timedelta(days=7)


def widen(
    gap: PollGap | None,
    polled_at: datetime | None,
    now: datetime,
    reach: BackfillWindow,
    missed: Iterable[MissedRestarts] = (),
) -> PollGap | None:
    """Return the gap to backfill after a poll at `now`, when the previous one was at `polled_at`.

    `missed` are executions that the restart counts show and that could not yet be read from accounting.
    """
    since = [each.after or each.key.first_seen_at for each in missed]
    if polled_at is not None and now - polled_at > reach.after:
        since.append(polled_at)
    if since:
        begin = min(since) - MARGIN
        gap = PollGap(min(gap.since, begin) if gap else begin, now)
    return bound(gap, now, reach)


def bound(gap: PollGap | None, now: datetime, reach: BackfillWindow) -> PollGap | None:
    """Cut off what is too far back; return None if nothing is left."""
    if gap is None:
        return None
    since = max(gap.since, now - reach.most)
    return PollGap(since, gap.until) if since < gap.until else None


def first_piece(gap: PollGap, length: timedelta = LONGEST_PIECE) -> PollGap:
    """Return the next part to query, oldest first."""
    return PollGap(gap.since, min(gap.until, gap.since + length))


def after(gap: PollGap, reported_until: datetime) -> PollGap | None:
    """Return the rest of a gap that was backfilled until an instant."""
    return PollGap(reported_until, gap.until) if reported_until < gap.until else None
