"""What the record shows to people: values for listings, made by the store and printed by commands and pages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ckptd.core.model import (
    EndCause,
    Evidence,
    FreeSpaceSample,
    Job,
    JobKey,
    JobState,
    RunKey,
    RunRecord,
    Scan,
    Unknown,
)
from ckptd.core.runs.progress import NO_CHANGES, CheckpointChanges

PAUSE = "pause"  # the action of an audit entry that is unfinished while the clock keeps retention from removing


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRow:
    """One job that has started and not ended, with the newest complete checkpoint of its run."""

    key: JobKey
    run: RunKey
    array_job_id: int | None
    array_task_id: int | None
    user: str
    name: str
    partition: str
    state: JobState
    restart_count: int
    time_left: timedelta | None
    directory: str | None  # None while it is not known
    located_by: str | None
    epoch: float | None
    step: int | None
    newest_checkpoint_at: datetime | None
    checkpoint_count: int
    checkpoint_bytes: int
    flags: tuple[str, ...]  # the rules that hold for its run or itself now


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedRun:
    """One run of which no job is in the queue any more, with what is left of it on the disk."""

    run: RunKey
    user: str
    job_id: int  # the latest of its jobs
    name: str
    attempt_count: int
    ended_at: datetime
    cause: EndCause | None  # why the latest attempt ended
    epoch: float | None
    step: int | None
    newest_checkpoint_at: datetime | None
    checkpoint_count: int
    checkpoint_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LocationRecord:
    """Where some jobs' checkpoints are, and what their owner says of them."""

    jobs: tuple[JobKey, ...]
    run: RunKey
    user: str
    located_by: str | None
    user_settings: Mapping[str, Any] | None = None  # None: nobody has read them
    settings_directory: str = ""  # the directory in which they were written


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanRecord:
    """What one look at a run's directory found; Unknown changes nothing but that it is unknown."""

    run: RunKey
    scan: Scan | Unknown
    changes: CheckpointChanges = NO_CHANGES
    free_space_samples: tuple[FreeSpaceSample, ...] | None = None  # None: this scan added no sample


@dataclass(frozen=True, kw_only=True, slots=True)
class PrunableRun:
    """What a decision about pruning one run rests on: all checkpoints that are there are in its history."""

    history: RunRecord
    job: Job | None  # the latest of it, ended or not
    # of its owner about keeping, by the directory where they were written
    retention_settings: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonIdentity:
    """Who keeps a cluster's record."""

    host: str
    pid: int
    version: str
    started_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterStatus:
    """How recent the record of one cluster is, and who keeps it."""

    cluster: str
    polled_at: datetime | None  # the last good look at the queue
    poll_failed_at: datetime | None  # the first bad look since then
    poll_trouble: Unknown | None
    scanned_at: datetime | None
    heartbeat_at: datetime | None
    daemon: DaemonIdentity | None
    # from then on jobs may have come and gone of which accounting has yet to tell
    backfill_since: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """One act that ckptd carried out or tried, written before it happens and finished after it."""

    audit_id: int | None = None
    cluster: str
    actor: str  # who or what decided: a policy's name, or a person's
    action: str
    target: str  # a path, a job, an address
    run: RunKey | None = None
    plan_id: str | None = None
    reasons: tuple[str, ...] = ()
    details: Mapping[str, Evidence] = field(default_factory=dict)
    begun_at: datetime
    finished_at: datetime | None = None  # None: still under way, or cut off
    outcome: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpiryCounts:
    """How much was let go of because it ended long ago."""

    run_count: int = 0
    notice_count: int = 0
    flag_count: int = 0
    is_all: bool = True  # False: there is more that may go

    def __add__(self, other: "ExpiryCounts") -> "ExpiryCounts":
        return ExpiryCounts(
            run_count=self.run_count + other.run_count,
            notice_count=self.notice_count + other.notice_count,
            flag_count=self.flag_count + other.flag_count,
            is_all=other.is_all,
        )
