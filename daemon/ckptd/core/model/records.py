"""Values for listings: `store` reads them from the database, commands and pages print them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ckptd.core.model import (
    EndCause,
    Evidence,
    FreeSpaceSample,
    Job,
    JobKey,
    JobState,
    NamedLocation,
    RunKey,
    RunRecord,
    Scan,
    Unknown,
    UnrecognisedFile,
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
    copies: tuple[str, ...] = ()  # the further locations of its run


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedRun:
    """One run without a job in the queue, with the checkpoints that it still has on disk."""

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
    """Where some jobs' checkpoints are, and the user settings for them."""

    jobs: tuple[JobKey, ...]
    run: RunKey
    user: str
    located_by: str | None
    user_settings: Mapping[str, Any] | None = None  # None: they were not read
    settings_directory: str = ""  # the directory in which they were written
    copies: tuple[NamedLocation, ...] | None = None  # further directories; None: nobody has searched for them
    continues: RunKey | None = None  # the run whose jobs save here now: all of it moves


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanRecord:
    """The result of one scan of a run's directory; Unknown changes nothing else on record."""

    run: RunKey
    scan: Scan | Unknown
    changes: CheckpointChanges = NO_CHANGES
    free_space_samples: tuple[FreeSpaceSample, ...] | None = None  # None: this scan added no sample


class SettledScan(NamedTuple):
    """A scan with which a run's record agrees: while disk and record stay as they are, another finds the same."""

    fingerprint: str
    revision: int  # of the record that was compared with it
    markers: tuple[str, ...] = ()
    unrecognised: UnrecognisedFile | None = None


class RevisionRise(NamedTuple):
    """A run's revisions around what one transaction recorded of it."""

    before: int
    after: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PrunableRun:
    """The facts for pruning one run: its history has all checkpoints that are on disk."""

    history: RunRecord
    job: Job | None  # the latest of it, ended or not
    # user settings about retention, by the directory of their file
    retention_settings: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonIdentity:
    """The daemon that records a cluster."""

    host: str
    pid: int
    version: str
    started_at: datetime


class NodeScanCost(NamedTuple):
    """How many steps a daemon has run in users' jobs since its start, and for how many seconds."""

    step_count: int
    seconds: int


NO_NODE_SCANS = NodeScanCost(0, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterStatus:
    """How recent the records of one cluster are, and which daemon writes them."""

    cluster: str
    polled_at: datetime | None  # the last successful poll
    poll_failed_at: datetime | None  # the first failed poll since then
    poll_trouble: Unknown | None
    scanned_at: datetime | None
    heartbeat_at: datetime | None
    daemon: DaemonIdentity | None
    # jobs that ran and ended since then may have been missed and are not backfilled yet
    backfill_since: datetime | None = None
    node_scans: NodeScanCost = NO_NODE_SCANS
    is_led: bool = False  # a daemon holds the lease; one that stops gives it up at once


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """One action that ckptd carried out or tried, recorded before it starts and completed after it."""

    audit_id: int | None = None
    cluster: str
    actor: str  # who or what decided: a policy's name, or a person's
    action: str
    target: str  # a path, a job, an address
    run: RunKey | None = None
    plan_id: str | None = None
    once_key: str | None = None  # unique among a cluster's entries; a trash operation frees it at its end
    reasons: tuple[str, ...] = ()
    details: Mapping[str, Evidence] = field(default_factory=dict)
    begun_at: datetime
    finished_at: datetime | None = None  # None: still running, or interrupted
    outcome: str | None = None


RunPlace = tuple[datetime, int]  # since when a run is recorded, and its row id


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpiryCounts:
    """How many old records were deleted."""

    run_count: int = 0
    notice_count: int = 0
    flag_count: int = 0
    is_all: bool = True  # False: more records can be deleted
    last_run: RunPlace | None = field(default=None, compare=False)  # the last one that was checked

    def __add__(self, other: "ExpiryCounts") -> "ExpiryCounts":
        return ExpiryCounts(
            run_count=self.run_count + other.run_count,
            notice_count=self.notice_count + other.notice_count,
            flag_count=self.flag_count + other.flag_count,
            is_all=other.is_all,
            last_run=other.last_run,
        )
