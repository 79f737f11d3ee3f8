"""A request that jobs of an owner carry out, as the database keeps it until its result is recorded."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from ckptd.core.model import Checkpoint, RunKey

UNWATCHED_AFTER = timedelta(minutes=5)  # since a command last said that it follows a ticket


@dataclass(frozen=True, kw_only=True, slots=True)
class VerificationTicket:
    """One request that an array job of the owner carries out: each task reads some pieces of checkpoints.

    A piece is a checkpoint that one format recognised, or such a part of a set. Tasks are numbered from 0. Those of a
    first scan list the directory themselves, and name no piece.
    """

    name: str  # 16 hexadecimal digits
    run: RunKey
    requested_at: datetime
    tasks: tuple[tuple[Checkpoint, ...], ...]
    is_comparison: bool = False  # each task reads whole checkpoints for their digests, in several directories
    is_scan: bool = False  # the tasks share the checkpoints of a directory that this node could not read in time
    job_id: int | None = None  # of the array job; None: it is not known whether it was submitted
    try_count: int = 1  # how often tasks were submitted
    silent_since: datetime | None = None  # since when tasks without a result are no longer in the queue
    watched_at: datetime | None = None  # when a command last said that it follows the ticket
    end_reason: str | None = None  # why the tasks without a result are not submitted again; None: they may be

    @property
    def pieces(self) -> tuple[Checkpoint, ...]:
        return tuple(piece for task in self.tasks for piece in task)

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.pieces)
