"""What was seen over several cycles and is on no record: it can be lost at any time and be had again by looking on."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ckptd.core.declared import read_wishes
from ckptd.core.model import (
    SUSPENDED_STATES,
    Attempt,
    EndCause,
    Flag,
    InterruptionTally,
    Job,
    RoomSample,
    RunHistory,
    RunKey,
    Scan,
    Wishes,
)

ROOM_GAP = timedelta(minutes=10)  # between two samples of the room that are kept
ROOM_COUNT = 18
SUSPENSION_MEMORY = timedelta(days=1)
INTERRUPTIONS = frozenset({EndCause.PREEMPTION, EndCause.NODE_FAILURE})
_NOTHING = InterruptionTally(0, timedelta(0))


class Seen:
    """Gathers facts for rules; it holds no clock, every call is told the time."""

    def __init__(self) -> None:
        self._wishes: dict[RunKey, Wishes] = {}
        self._suspended: dict[int, datetime] = {}
        self._room: dict[RunKey, tuple[RoomSample, ...]] = {}
        self._interruptions: dict[int, InterruptionTally] = {}
        self._preempting: set[str] = set()

    def note_jobs(self, jobs: Iterable[Job], at: datetime) -> None:
        """Note which jobs are suspended now."""
        self._suspended = {
            job_id: instant for job_id, instant in self._suspended.items() if at - instant < SUSPENSION_MEMORY
        }
        self._suspended.update((job.job_id, at) for job in jobs if job.state in SUSPENDED_STATES)

    def note_ended(self, attempts: Iterable[Attempt]) -> None:
        """Count what broke attempts off, by size: neither limits nor what users and operators did."""
        for attempt in attempts:
            if attempt.ended_at is None:
                continue
            count, observed = self._interruptions.get(_size_class(attempt.node_count), _NOTHING)
            tally = InterruptionTally(
                count + (attempt.cause in INTERRUPTIONS), observed + (attempt.ended_at - attempt.started_at)
            )
            self._interruptions[_size_class(attempt.node_count)] = tally
            if attempt.cause is EndCause.PREEMPTION and attempt.partition:
                self._preempting.add(attempt.partition)

    def note_scan(self, key: RunKey, scan: Scan) -> None:
        """Note how much room there was."""
        if scan.free_bytes is None:
            return
        samples = self._room.get(key, ())
        if not samples or scan.scanned_at - samples[-1].at >= ROOM_GAP:
            self._room[key] = (*samples, RoomSample(scan.scanned_at, scan.free_bytes))[-ROOM_COUNT:]

    def note_wishes(self, key: RunKey, table: Mapping[str, Any]) -> None:
        """Note what the owner of a run says in `.ckptd.toml`."""
        self._wishes[key] = read_wishes(table)

    def keep(self, keys: Iterable[RunKey]) -> None:
        """Forget all other runs."""
        wanted = set(keys)
        self._wishes = {key: value for key, value in self._wishes.items() if key in wanted}
        self._room = {key: value for key, value in self._room.items() if key in wanted}

    def add_to(self, history: RunHistory, open_flags: Iterable[Flag]) -> RunHistory:
        """Return a history with what was seen of its run, and which of its flags are open."""
        return replace(
            history,
            wishes=self._wishes.get(history.key, history.wishes),
            suspended_until={
                job.job_id: self._suspended[job.job_id] for job in history.jobs if job.job_id in self._suspended
            },
            room=self._room.get(history.key, ()),
            interruptions=self._interruptions.get(
                _size_class(max((job.node_count for job in history.jobs), default=1))
            ),
            is_preempted_there=any(job.partition in self._preempting for job in history.jobs),
            flagged=frozenset((flag.finding.rule, flag.finding.job_id) for flag in open_flags),
        )


def _size_class(node_count: int) -> int:
    """Return which jobs are alike in size: up to 1, 2, 4, 8 nodes and so on."""
    return max(node_count - 1, 0).bit_length()
