"""When the holder of a lease may act, and when another process may take the lease.

Times are seconds of the caller's own clock, which nobody can set (CLOCK_BOOTTIME). Clocks of two hosts are never
compared: a process that waits measures by its own clock for how long the lease has not been renewed. The rules hold
as long as no clock runs 20 % slower than another one.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

RUN = "run"  # the program of a holder that is a daemon


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseTimes:
    """The lengths of a lease in seconds. The holder stops earlier than others may begin."""

    duration: float = 15.0  # unrenewed for so long, the lease may be taken
    valid: float = 12.0  # after the start of its last renewal, its holder may act for so long
    renew_interval: float = 4.0
    watch_interval: float = 2.0  # between two reads of the lease by a standby

    @property
    def longest_takeover(self) -> float:
        """Return after how many seconds at most another process has taken the lease of one that was killed."""
        return self.duration + 2 * self.watch_interval


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseHolder:
    """The process that holds a lease or waits for it."""

    instance: str  # a random name: a process id is used again
    program: str  # the command, such as `run` or `once`
    host: str
    pid: int
    version: str

    def __str__(self) -> str:
        return f"`ckptd {self.program}` on {self.host} (pid {self.pid})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """The lease of a cluster as it is recorded. Every change of its holder raises `epoch`, every renewal `renewal`."""

    epoch: int
    renewal: int
    holder: LeaseHolder | None  # None: its last holder has released it
    acquired_at: datetime | None = None
    renewed_at: datetime | None = None  # by the holder's clock, for people only


class LeaseWatch(NamedTuple):
    """What a process that waits has seen of the lease, and since when."""

    lease: Lease
    since: float  # from then on it was not renewed


def valid_until(renewal_began: float, times: LeaseTimes) -> float:
    """Return until when the holder may act after a renewal that began at this time and succeeded."""
    return renewal_began + times.valid


def watch(before: LeaseWatch | None, seen: Lease, seen_at: float) -> LeaseWatch:
    """Return what is known of the lease after reading it again; `seen_at` is a time after that read."""
    is_same = before is not None and (before.lease.epoch, before.lease.renewal) == (seen.epoch, seen.renewal)
    return LeaseWatch(seen, before.since if before is not None and is_same else seen_at)


def may_take(watched: LeaseWatch, now: float, times: LeaseTimes) -> bool:
    """Whether the lease is free, or its holder has stopped acting because it could not renew it."""
    return watched.lease.holder is None or now - watched.since >= times.duration
