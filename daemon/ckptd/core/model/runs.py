"""Runs: all attempts that use one checkpoint directory, and what is known about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from ckptd.core.model.checkpoints import RecordedCheckpoint, Scan
from ckptd.core.model.jobs import (
    EndCause,
    Hold,
    Job,
    JobKey,
    JobState,
    LimitSignal,
    Maintenance,
    RestartKind,
    Suspension,
)
from ckptd.core.model.purges import SitePurge
from ckptd.core.model.resumes import Resume
from ckptd.core.model.run_locations import COPY, CopyLocation
from ckptd.core.model.save_cadence import SaveCadence
from ckptd.core.model.unknown import Unknown


class RunKey(NamedTuple):
    """A run's identity. `directory` is the real path, or `job:ID@first seen` while no checkpoint directory is known."""

    cluster: str
    uid: int
    directory: str

    @property
    def is_located(self) -> bool:
        return self.directory.startswith("/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One execution of a job: the job and its restart count."""

    job: JobKey
    restart_count: int
    array_job_id: int | None = None
    array_task_id: int | None = None
    kind: RestartKind | None = None  # None: the first attempt of its run
    state: JobState
    cause: EndCause | None = None  # None while it has not ended
    first_seen_at: datetime
    started_at: datetime
    ended_at: datetime | None = None
    time_limit: timedelta | None = None
    partition: str | None = None  # where it ran; for a waiting job, Slurm lists all partitions where it may run
    node_count: int = 0
    cpu_count: int = 0
    gpu_count: int = 0
    resumed_from: Resume | None = None  # None: not inferred yet, or its run has no known directory
    suspensions: tuple[Suspension, ...] = ()  # oldest first; one that is not over is the last


NOTHING: Mapping[Any, Any] = {}  # for the many runs of which nothing is known, instead of a mapping each
EVERY_RULE = "*"  # among the rules that a user mutes: all of them


@dataclass(frozen=True, kw_only=True, slots=True)
class UserSettings:
    """The settings in the owner's `.ckptd.toml` that rules use."""

    is_saving: bool = True  # False: it does not checkpoint, by design
    saves_on_signal: bool = False  # it saves near its time limit, when Slurm signals it
    goal_epoch: float | None = None
    goal_step: int | None = None
    muted: frozenset[str] = frozenset()  # rules that its owner has muted
    directory: str | None = None  # where it declares that its checkpoints are, the first of several
    signal: str | None = None  # what it saves on, as declared
    is_resubmitted: bool = False  # resubmit it after its time limit
    max_resubmits: int = 0
    misread: tuple[str, ...] = ()  # settings in the file that have no effect, a sentence each


class InterruptionTally(NamedTuple):
    """The run time on a cluster, and the interruptions that neither the job nor its user caused."""

    interruption_count: int
    observed: timedelta  # how long the attempts that were counted ran, summed


class FreeSpaceSample(NamedTuple):
    """The bytes that could be written at one instant: the free space, or the rest of a quota if that was less."""

    at: datetime
    free_bytes: int


class ResubmitRefusal(NamedTuple):
    """Why a timed-out run was not resubmitted although its user asked for it."""

    job: Job  # that ended
    reason: str
    is_waited_for: bool = False  # a waiting job may continue it


class Resubmission(NamedTuple):
    """A job that ckptd submitted: its number in the row of resubmissions, and which job it continues."""

    number: int
    ended_job_id: int
    has_submit_line: bool = True  # else options that were given only there could not be repeated


class Totals(NamedTuple):
    """Sums over all checkpoints of a run on disk, including those that its history leaves out."""

    checkpoint_count: int
    size_bytes: int
    damaged_since_good: int  # damaged ones written after the newest complete one


class SummedCheckpoints(NamedTuple):
    """Deleted checkpoints of a run that ended long ago, of which only sums are left on record."""

    checkpoint_count: int
    size_bytes: int
    first_seen_at: datetime  # the first one
    last_seen_at: datetime


class AttemptProgress(NamedTuple):
    """The lowest and the highest progress among the checkpoints of an attempt that were complete once."""

    save_count: int
    steps: tuple[float, float] | None
    epochs: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """What the database knows about one run; RunContext has what only the running daemon knows."""

    key: RunKey
    user: str
    located_by: str | None
    jobs: tuple[Job, ...]  # as last seen; only jobs that have not ended
    attempts: tuple[Attempt, ...]  # oldest first
    checkpoints: tuple[RecordedCheckpoint, ...]  # oldest first, deleted ones included
    polled_at: datetime | None  # the last successful poll
    scan: Scan | Unknown | None  # None: never scanned
    other_writers: tuple[tuple[Job, str], ...] = ()  # running jobs of other runs in the same directory, their users
    recorded_since: datetime | None = None  # when ckptd first saw this run
    user_settings: UserSettings = UserSettings()
    suspended_until: Mapping[int, datetime] = field(default_factory=dict)  # by job id: when it was last seen so
    free_space_samples: tuple[FreeSpaceSample, ...] = ()  # of its file system, oldest first
    job_names: Mapping[JobKey, str] = field(default_factory=dict)  # of its attempts' jobs; empty: all have one name
    has_saved_before: bool = False  # one of the same user, job name (no generic one) and directory has checkpointed
    is_truncated: bool = False  # older checkpoints are left out
    totals: Totals | None = None  # of all checkpoints on disk; None: to be summed over `checkpoints`
    # progress of each attempt by all its checkpoints; None: to be measured over `checkpoints`
    reaches: tuple[AttemptProgress, ...] | None = None
    copies: tuple[CopyLocation, ...] = ()  # its further locations, as they were declared
    earlier: tuple[
        CopyLocation, ...
    ] = ()  # where earlier starts saved, the latest first; `checkpoints` has theirs, too
    primaries: tuple[RunKey, ...] = ()  # the runs of which its directory is a further location
    summed: SummedCheckpoints | None = None  # beside `checkpoints`
    rhythm: SaveCadence | None = None  # of these attempts and checkpoints; None: to be measured where it is asked for

    @property
    def is_only_copy(self) -> bool:
        """Whether this is only a further location of other runs: no job has it as its primary location."""
        return self.located_by == COPY


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContext:
    """What only the running daemon knows about one run: its cluster, its job scripts, flags and actions.

    No field has a default: code that does not know a value must not build a context.
    """

    is_named_by_script: bool  # its batch script says where checkpoints go
    is_preempted_there: bool  # jobs of its partition have been preempted
    interruptions: InterruptionTally | None  # of jobs of its size on its cluster
    maintenance: tuple[Maintenance, ...]  # of any nodes, future ones included
    holds: Mapping[JobKey, Hold]  # the latest of each job of its attempts
    signals: Mapping[int, LimitSignal]  # by job id, of batch scripts that were read
    signalled: Mapping[int, timedelta]  # jobs that ckptd signals, and how early
    standing: ResubmitRefusal | Unknown | None  # Unknown: it may have stopped long ago
    resubmitted: Mapping[int, Resubmission]  # by job id
    flagged: frozenset[tuple[str, int | None]]  # rules and job ids whose flags are open
    open_evidence: Mapping[tuple[str, int | None], Mapping[str, object]]  # of these flags, as it was last recorded
    purge: SitePurge  # of files where it saves


@dataclass(frozen=True, kw_only=True, slots=True)
class RunHistory(RunRecord):
    """Everything that a rule may know about one run: its only argument beside thresholds and `now`."""

    context: RunContext

    @classmethod
    def join(cls, record: RunRecord, context: RunContext) -> Self:
        """Return the history of a run from its updated record and its context."""
        return cls(**{each.name: getattr(record, each.name) for each in fields(RunRecord)}, context=context)
