"""Runs: all attempts that use one checkpoint directory, and what is known of them together."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import NamedTuple, Self

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
    partition: str | None = None  # where it ran: while a job waits again, Slurm shows all that it may run in
    node_count: int = 0
    cpu_count: int = 0
    gpu_count: int = 0
    resumed_from: Resume | None = None  # None: not asked yet, or its run has no known directory
    suspensions: tuple[Suspension, ...] = ()  # oldest first; one that is not over is the last


@dataclass(frozen=True, kw_only=True, slots=True)
class UserSettings:
    """What a run's owner says of it in `.ckptd.toml`, as far as rules listen to it."""

    is_saving: bool = True  # False: it does not checkpoint, by design
    saves_on_signal: bool = False  # it saves when its limit is near, because Slurm warns it
    goal_epoch: float | None = None
    goal_step: int | None = None
    muted: frozenset[str] = frozenset()  # rules that its owner has muted
    directory: str | None = None  # where it says that its checkpoints are
    signal: str | None = None  # what it saves on, as declared
    is_resubmitted: bool = False  # it is to be submitted again when its time limit ended it
    max_resubmits: int = 0
    misread: tuple[str, ...] = ()  # what in the file counts for nothing, a sentence each


class InterruptionTally(NamedTuple):
    """What ran on a cluster, and what broke it off that was neither the job's nor its user's doing."""

    interruption_count: int
    observed: timedelta  # how long the attempts that were counted ran, summed


class FreeSpaceSample(NamedTuple):
    """How much could be written at one instant: what was free, or what a quota left where that was less."""

    at: datetime
    free_bytes: int


class ResubmitRefusal(NamedTuple):
    """That a run which its limit ended is not submitted again, although its user has asked for that."""

    job: Job  # that ended
    reason: str
    is_waited_for: bool = False  # it may go on all the same: by a job that waits


class Resubmission(NamedTuple):
    """Of a job that ckptd has submitted: the how many-th in a row, and for which."""

    number: int
    ended_job_id: int
    remark: str = ""  # what is lost of how that one was submitted


class Totals(NamedTuple):
    """What all checkpoints of a run that are on disk add up to, however many of them its history leaves out."""

    checkpoint_count: int
    size_bytes: int
    damaged_since_good: int  # damaged ones written after the newest complete one


class AttemptProgress(NamedTuple):
    """How far one attempt got, by the checkpoints that were complete once: the lowest and the highest of each."""

    save_count: int
    steps: tuple[float, float] | None
    epochs: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """What the store knows of one run. It says nothing of what only the running daemon knows: see RunContext."""

    key: RunKey
    user: str
    located_by: str | None
    jobs: tuple[Job, ...]  # as last seen; only jobs that have not ended
    attempts: tuple[Attempt, ...]  # oldest first
    checkpoints: tuple[RecordedCheckpoint, ...]  # oldest first, gone ones included
    polled_at: datetime | None  # the last good poll
    scan: Scan | Unknown | None  # None: never scanned
    other_writers: tuple[tuple[Job, str], ...] = ()  # running jobs of other runs in the same directory, their users
    recorded_since: datetime | None = None  # when ckptd first saw this run
    user_settings: UserSettings = UserSettings()
    suspended_until: Mapping[int, datetime] = field(default_factory=dict)  # by job id: when it was last seen so
    free_space_samples: tuple[FreeSpaceSample, ...] = ()  # of its file system, oldest first
    has_saved_before: bool = False  # another run of the same user, job name and working directory has checkpointed
    is_truncated: bool = False  # older checkpoints are left out
    totals: Totals | None = None  # of all checkpoints on disk; None: of those that are here
    # of each attempt, by all checkpoints; None: by those that are here
    reaches: tuple[AttemptProgress, ...] | None = None
    rhythm: SaveCadence | None = None  # of these attempts and checkpoints; None: to be measured where it is asked for


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContext:
    """What only the running daemon knows of one run: its cluster, its job scripts, flags and actions.

    No field has a default: who has no answer has no context, and shows none.
    """

    is_named_by_script: bool  # its batch script says where checkpoints go
    is_preempted_there: bool  # jobs of its partition have been preempted
    interruptions: InterruptionTally | None  # of jobs of its size on its cluster
    maintenance: tuple[Maintenance, ...]  # of any nodes, also to come
    holds: Mapping[JobKey, Hold]  # the latest of each job of its attempts
    signals: Mapping[int, LimitSignal]  # by job id, of batch scripts that were read
    signalled: Mapping[int, timedelta]  # jobs that ckptd signals, and how early
    standing: ResubmitRefusal | Unknown | None  # Unknown: that it may stand still since long ago
    resubmitted: Mapping[int, Resubmission]  # by job id
    flagged: frozenset[tuple[str, int | None]]  # rules and job ids whose flags are open
    open_evidence: Mapping[tuple[str, int | None], Mapping[str, object]]  # of these flags, as it was last recorded
    purge: SitePurge  # of files where it saves


@dataclass(frozen=True, kw_only=True, slots=True)
class RunHistory(RunRecord):
    """Everything that a rule may know of one run: the only argument of a decision beside thresholds and `now`."""

    context: RunContext

    @classmethod
    def join(cls, record: RunRecord, context: RunContext) -> Self:
        """Return what a rule may know: the record, brought up to date, and its context."""
        return cls(**{each.name: getattr(record, each.name) for each in fields(RunRecord)}, context=context)
