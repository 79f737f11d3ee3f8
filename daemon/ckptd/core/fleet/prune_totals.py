"""Totals of pruning since the daemon started, and the current content of the trash, for metrics.

The counts start at 0 with the daemon, as Prometheus expects of counters. The trash's content is read from the disk.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple


class FailureCause(StrEnum):
    """Why an operation on users' files failed: a word of a fixed set, beside the sentence for people."""

    CHANGED = "changed"  # it differs from the plan
    GONE = "gone"
    OPEN = "open"  # in a process of its owner
    LINKED = "linked"  # it has a second name
    FOREIGN = "foreign"  # someone else's
    MOUNTED = "mounted"  # on another file system, or under a mount
    SPECIAL = "special"  # no regular file
    OUTSIDE = "outside"  # of what may be touched, by its path
    TOO_DEEP = "too-deep"  # nested more deeply than ckptd descends
    BUSY = "busy"  # another process acts on the same trash
    HELD = "held"  # its hold is not over, or its move is not finished
    TAKEN = "taken"  # its old name is in use
    UNREADABLE = "unreadable"  # its manifest is none of ckptd's
    READ_ONLY = "read-only"
    FULL = "full"  # no space, or no quota
    PERMISSION = "permission"
    IMMUTABLE = "immutable"  # protected by its attribute (chattr +i), or by a sticky directory
    BROKEN = "broken"  # the file system failed to read or write
    CUT_OFF = "cut-off"  # the operation was interrupted; its result was found later
    OTHER = "other"


class PruneAction(NamedTuple):
    """A kind of operation and its result: action and result as in the audit table."""

    action: str
    result: str
    cause: str  # "" where nothing went wrong


DONE = {"prune": "moved", "restore": "restored", "empty": "deleted"}  # by action: its result where it came to its end
_EXPECTED = (
    *(PruneAction(action, result, "") for action, result in DONE.items()),
    *(
        PruneAction("prune", "refused", cause.value)
        for cause in (FailureCause.CHANGED, FailureCause.GONE, FailureCause.OPEN, FailureCause.LINKED)
    ),
    *(
        PruneAction("prune", "failed", cause.value)
        for cause in (FailureCause.READ_ONLY, FailureCause.FULL, FailureCause.PERMISSION)
    ),
)


@dataclass(frozen=True, slots=True)
class RemovableTotals:
    """Checkpoints that may be removed."""

    count: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class TrashTotals:
    """Content of the trashes."""

    count: int = 0
    size_bytes: int = 0
    oldest_at: datetime | None = None  # None: nothing does
    overdue_count: int = 0  # longer than the site holds it


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneTotals:
    """The state of pruning after its last step. Expected counters exist from the start, so that increases show."""

    operations: Mapping[PruneAction, int] = field(default_factory=lambda: dict.fromkeys(_EXPECTED, 0))
    operation_bytes: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(DONE, 0))
    held: TrashTotals = field(default_factory=TrashTotals)
    going: Mapping[str, RemovableTotals] = field(default_factory=dict)  # by the mode of the policy
    is_breaker_open: bool = False  # by errors of several users
    paused_user_count: int = 0
    is_clock_unreliable: bool = False
    unconfirmed_run_count: int = 0  # of which an act's end is not known
    stepped_at: datetime | None = None
    step_duration: timedelta = timedelta(0)
