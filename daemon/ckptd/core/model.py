"""The words of the design as values, shared by every part.

All are frozen and keyword-only. Instants are aware UTC datetimes and end in `_at`, durations are timedeltas,
what is absent is None and never 0. Text that users wrote (names, comments, paths) may hold any character,
including lone surrogates for bytes that are not UTF-8; nothing here parses or trusts it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.core.save_rhythm import SaveRhythm


@dataclass(frozen=True, kw_only=True, slots=True)
class Unknown:
    """Could not look: never to be taken for an empty answer."""

    what: str
    reason: str


class JobState(StrEnum):
    """Slurm's job states and the state flags that replace them in its listings, by Slurm's names."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    COMPLETING = "COMPLETING"
    CONFIGURING = "CONFIGURING"
    EXPEDITING = "EXPEDITING"
    POWER_UP_NODE = "POWER_UP_NODE"
    RECONFIG_FAIL = "RECONFIG_FAIL"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    RESIZING = "RESIZING"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    REVOKED = "REVOKED"
    SIGNALING = "SIGNALING"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    STAGE_OUT = "STAGE_OUT"
    STOPPED = "STOPPED"
    UPDATE_DB = "UPDATE_DB"
    UNKNOWN = "UNKNOWN"  # a word of a newer Slurm, or an end whose cause nobody could tell


ENDED_STATES = frozenset(
    {
        JobState.COMPLETED,
        JobState.CANCELLED,
        JobState.FAILED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
        JobState.PREEMPTED,
        JobState.BOOT_FAIL,
        JobState.DEADLINE,
        JobState.OUT_OF_MEMORY,
        JobState.LAUNCH_FAILED,
        JobState.RECONFIG_FAIL,
        JobState.REVOKED,
    }
)
RUNNING_STATES = frozenset(
    {JobState.RUNNING, JobState.SIGNALING, JobState.RESIZING, JobState.STAGE_OUT, JobState.EXPEDITING}
)
SUSPENDED_STATES = frozenset({JobState.SUSPENDED, JobState.STOPPED})


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One Slurm job as one look at the queue shows it; an array task is a job."""

    cluster: str
    job_id: int
    array_job_id: int | None = None
    array_task_id: int | None = None
    array_task_limit: int | None = None  # the N of `--array=...%N`, where the source tells it
    task_count: int = 1  # more: pending tasks of an array, which Slurm keeps as one job until each starts
    het_job_id: int | None = None
    user: str
    uid: int
    account: str = ""
    partition: str = ""
    qos: str = ""
    name: str = ""
    state: JobState
    reason: str = ""  # Slurm's word for why it waits or ended
    restart_count: int = 0
    is_requeueable: bool = True
    time_limit: timedelta | None = None  # None: unlimited, unset or the partition's
    time_left: timedelta | None = None  # frozen while suspended; zero once past the limit
    submitted_at: datetime | None = None  # reset by every requeue
    started_at: datetime | None = None  # of this attempt; for a pending job a prediction
    ends_at: datetime | None = None  # expected while it runs, real afterwards
    work_dir: PurePosixPath | None = None
    comment: str = ""
    admin_comment: str = ""
    command: str = field(default="", compare=False)  # with its arguments; not recorded, so no part of a comparison
    dependency: str = ""
    node_list: str = ""
    batch_host: str = ""
    node_count: int = 0
    cpu_count: int = 0
    gpu_count: int = 0
    is_batch: bool = True
    mail_user: str | None = None

    @property
    def slurm_name(self) -> str:
        """What names this one job to Slurm: an array's last task has the array's number, which means all of them."""
        if self.array_job_id is not None and self.array_task_id is not None:
            return f"{self.array_job_id}_{self.array_task_id}"
        return str(self.job_id)

    @property
    def is_running(self) -> bool:
        """Whether its processes are running now; a suspended or completing job's are not."""
        return self.state in RUNNING_STATES


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueSnapshot:
    """Every job that slurmctld showed in one query."""

    cluster: str
    polled_at: datetime
    jobs: tuple[Job, ...]


class EndedAttempt(NamedTuple):
    """How accounting says one attempt ended. A requeued job has one for each time that it ran."""

    job_id: int
    submitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    state: JobState  # REQUEUED where the attempt was requeued
    node_list: str
    node_count: int
    cpu_count: int
    gpu_count: int
    suspended: timedelta | None = None  # for how long of its time; None where that is not told
    het_job_id: int | None = None  # of a heterogeneous job: its first part


@dataclass(frozen=True, kw_only=True, slots=True)
class PastJob:
    """One execution of a job that is over, with all that accounting tells of the job."""

    job: Job
    restart_count: int | None = None  # None: this Slurm's accounting does not tell
    suspended: timedelta = timedelta(0)  # for how long of its time

    @property
    def started_at(self) -> datetime:
        assert self.job.started_at is not None
        return self.job.started_at

    @property
    def ended_at(self) -> datetime:
        assert self.job.ends_at is not None
        return self.job.ends_at


class Past(NamedTuple):
    """Every execution that ended between two instants; `until` is the second, or an earlier one."""

    jobs: tuple[PastJob, ...]
    until: datetime


class Suspension(NamedTuple):
    """A time in which an attempt did not run though it held its nodes."""

    began_at: datetime
    ended_at: datetime | None = None


class RestartKind(StrEnum):
    """How an attempt that is not the first of its run came to be."""

    REQUEUE = "requeue"
    ARRAY = "array"
    RESUBMIT = "resubmit"


class EndCause(StrEnum):
    """Why an attempt ended, as the lost-work ledger tells it."""

    COMPLETED = "completed"
    REQUEUE = "requeue"
    PREEMPTION = "preemption"
    NODE_FAILURE = "node-failure"
    TIME_LIMIT = "time-limit"
    FAILURE = "failure"
    CANCEL = "cancel"
    MAINTENANCE = "maintenance"
    UNKNOWN = "unknown"


class JobKey(NamedTuple):
    """A job's identity: ids wrap and restart, so the first time it was seen belongs to it."""

    cluster: str
    job_id: int
    first_seen_at: datetime


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
    resumed_from: str | None = None  # path of the newest complete checkpoint when it started
    suspensions: tuple[Suspension, ...] = ()  # oldest first; one that is not over is the last


class CheckpointState(StrEnum):
    """What is known of a checkpoint's wholeness."""

    COMPLETE = "complete"
    WRITING = "writing"
    DAMAGED = "damaged"
    UNKNOWN = "unknown"


class Level(StrEnum):
    """How deeply a checkpoint was looked at."""

    LISTED = "listed"
    STRUCTURE = "structure"
    FULL = "full"


class Role(StrEnum):
    """What a checkpoint can be used for."""

    STATE = "state"  # its content or its framework's own structure proves that a run can resume from it
    WEIGHTS = "weights"  # parameters only: it may be an export or a download
    DATA = "data"  # arrays, tables, samples, embeddings, and everything whose content proves nothing


class FileIdentity(NamedTuple):
    """What must be unchanged for a file to be the one that was inspected.

    `changed_ns` is the inode's change time (ctime), which no user can set; 0 where it was not recorded.
    """

    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Grouping:
    """Which files are one checkpoint, which number in their names is its progress, and how that is known.

    Built by `core.checkpoint_sets`. Where `doubt` says why it is not known, the files are shown and never pruned.
    """

    series: str = ""  # the path in its location with `#` for the progress number: equal in all checkpoints of a series
    progress: tuple[int, ...] = ()  # progress numbers in the names, such as (epoch, step); empty: the name is fixed
    evidence: str = ""  # why these numbers are progress, such as "the word `step` is beside it"
    has_progress_word: bool = False  # a word such as `epoch` or `step` is beside the number
    is_directory: bool = False  # the path is a directory that holds nothing but this checkpoint
    doubt: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """One restorable state as one scan shows it: an indivisible set of member files.

    `path` is the file, the directory, for a set of files the prefix that its framework would be given, or else the
    first of its parts. `files` are all member files, relative to the parent of `path`; `identities` pairs each of them
    with what it was. `parts` are the things that formats recognised where several make up the set, each with paths and
    files of its own; empty where the checkpoint is one such thing itself.
    """

    path: PurePosixPath
    format: str
    files: tuple[str, ...]
    identities: tuple[FileIdentity, ...]
    owner_uids: frozenset[int] = frozenset()
    size_bytes: int
    modified_at: datetime
    state: CheckpointState
    reason: str | None = None
    level: Level
    epoch: float | None = None  # whole numbers are ints
    step: int | None = None
    name_epoch: float | None = None
    name_step: int | None = None
    is_best: bool | None = None
    is_newest: bool | None = None  # the format's own marker names it
    is_listed: bool | None = None  # an index of the format's own names it, newest or not
    metrics: Mapping[str, float] = field(default_factory=dict)
    goal_epoch: float | None = None  # how far the training shall go, where the content says so
    goal_step: int | None = None
    unsafe: tuple[str, ...] = ()
    content_epoch: float | None = None  # what the content itself says; `epoch` and `step` may be from the name
    content_step: int | None = None
    role: Role = Role.DATA
    role_evidence: str = ""
    is_result: bool = False  # users also analyse it, as an OpenFOAM time or a snapshot: kept like data
    grouping: Grouping = Grouping()
    parts: tuple["Checkpoint", ...] = ()


class SeenLink(NamedTuple):
    """A symbolic link that a scan saw, or `resume_from` in a user's own file, and where it leads.

    An empty `target` is one that could not be read: it may be anything.
    """

    path: str  # of the link or the file, absolute
    target: str  # absolute and normalised, as its text says
    real: str | None = None  # without any links; None where nothing is there, or nobody could tell
    device: int = 0  # of what is there, or where that is a directory of the file `inside` it; 0: not known
    inode: int = 0
    inside: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """What one look at one checkpoint directory found."""

    directory: PurePosixPath
    scanned_at: datetime  # when the look was asked for: what was written later may not be in it
    checkpoints: tuple[Checkpoint, ...]
    problems: tuple[Unknown, ...] = ()  # not empty: the directory was not read whole
    leftovers: tuple[str, ...] = ()  # backups and temporaries of saves, relative to the directory
    free_bytes: int | None = None
    total_bytes: int | None = None
    quota_left_bytes: int | None = None  # what its owner may still write; None: no limit, or nobody knows
    quota_trouble: str | None = None  # why that is not known
    quota_read_at: datetime | None = None  # None: nobody was asked
    filesystem_type: str | None = None
    markers: tuple[str, ...] = ()  # files that several checkpoints share, relative to the directory: never moved
    finished_at: datetime | None = None  # when the look was over, where it tells: what it saw may be as young as that
    links: tuple[SeenLink, ...] = ()  # its owner's, there and in the working directories of its jobs

    @property
    def is_whole(self) -> bool:
        return not self.problems

    @property
    def room_bytes(self) -> int | None:
        """What can still be written: what is free, and no more than the owner's quota leaves."""
        known = [each for each in (self.free_bytes, self.quota_left_bytes) if each is not None]
        return min(known, default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedCheckpoint:
    """A checkpoint with what the record adds to what the disk shows."""

    checkpoint: Checkpoint
    first_seen_at: datetime
    completed_at: datetime | None = None  # when its last byte was written, once it was seen complete
    started_writing_at: datetime | None = None  # None: it was never seen incomplete
    attempt: tuple[JobKey, int] | None = None  # the attempt that was seen writing it: the ownership proof
    gone_at: datetime | None = None
    pruned_at: datetime | None = None
    is_pinned: bool = False
    verified_full_at: datetime | None = None  # when every byte of it, as it is now, was last found whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Wishes:
    """What a run's owner says of it in `.ckptd.toml`, as far as rules listen to it."""

    is_saving: bool = True  # False: it does not checkpoint, by design
    saves_on_signal: bool = False  # it saves when its limit is near, because Slurm warns it
    goal_epoch: float | None = None
    goal_step: int | None = None
    muted: frozenset[str] = frozenset()  # rules that its owner does not want to be told of
    directory: str | None = None  # where it says that its checkpoints are
    signal: str | None = None  # what it saves on, as declared
    is_resubmitted: bool = False  # it is to be submitted again when its time limit ended it
    max_resubmits: int = 0
    misread: tuple[str, ...] = ()  # what in the file counts for nothing, a sentence each


class LimitSignal(NamedTuple):
    """What `--signal` asks of Slurm: a signal before the limit, `B:` to the batch shell alone."""

    word: str  # such as `B:USR1`
    lead_seconds: int


class InterruptionTally(NamedTuple):
    """What ran on a cluster, and what broke it off that was neither the job's nor its user's doing."""

    interruption_count: int
    observed: timedelta  # how long the attempts that were counted ran, summed


class RoomSample(NamedTuple):
    """How much could be written at one instant: what was free, or what a quota left where that was less."""

    at: datetime
    free_bytes: int


class Hold(NamedTuple):
    """That a job was held: what it did before counts for nothing once it is let go on."""

    next_restart: int  # the restart count of its next attempt
    broken_off: frozenset[int] = frozenset()  # restart counts of the attempts that ckptd's holds ended
    is_own: bool = False  # whether ckptd held it


class Standing(NamedTuple):
    """That a run which its limit ended is not submitted again, although its user has asked for that."""

    job: Job  # that ended
    reason: str
    is_waited_for: bool = False  # it may go on all the same: by a job that waits


class Resubmitted(NamedTuple):
    """Of a job that ckptd has submitted: the how many-th in a row, and for which."""

    number: int
    ended_job_id: int
    remark: str = ""  # what is lost of how that one was submitted


class Maintenance(NamedTuple):
    """A reservation of nodes for maintenance."""

    name: str
    begins_at: datetime
    ends_at: datetime
    nodes: frozenset[str]


class Reach(NamedTuple):
    """How far one attempt got, by the checkpoints that were complete once: the lowest and the highest of each."""

    save_count: int
    steps: tuple[float, float] | None
    epochs: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunHistory:
    """Everything that a rule may know of one run: the only argument of a decision beside thresholds and `now`."""

    key: RunKey
    user: str
    located_by: str | None
    jobs: tuple[Job, ...]  # as last seen; only jobs that have not ended
    attempts: tuple[Attempt, ...]  # oldest first
    checkpoints: tuple[RecordedCheckpoint, ...]  # oldest first, gone ones included
    polled_at: datetime | None  # the last good look at the queue
    scan: Scan | Unknown | None  # None: never looked
    other_writers: tuple[tuple[Job, str], ...] = ()  # running jobs of other runs in the same directory, their users
    recorded_since: datetime | None = None  # when ckptd first saw this run
    wishes: Wishes = Wishes()
    suspended_until: Mapping[int, datetime] = field(default_factory=dict)  # by job id: when it was last seen so
    is_preempted_there: bool = False  # jobs of its partition have been preempted
    interruptions: InterruptionTally | None = None  # of jobs of its size on its cluster
    room: tuple[RoomSample, ...] = ()  # earlier looks at the room of its file system, oldest first
    is_cut: bool = False  # older checkpoints are left out
    reaches: tuple[Reach, ...] | None = None  # of each attempt, by all checkpoints; None: by those that are here
    rhythm: SaveRhythm | None = None  # of these attempts and checkpoints; None: to be measured where it is asked for
    maintenance: tuple[Maintenance, ...] = ()  # of any nodes, also to come
    holds: Mapping[JobKey, Hold] = field(default_factory=dict)  # the latest of each job of its attempts
    signals: Mapping[int, LimitSignal] = field(default_factory=dict)  # by job id, of batch scripts that were read
    signalled: Mapping[int, timedelta] = field(default_factory=dict)  # jobs that ckptd signals, and how early
    standing: Standing | Unknown | None = None  # Unknown: that it may stand still since long ago
    resubmitted: Mapping[int, Resubmitted] = field(default_factory=dict)  # by job id
    flagged: frozenset[tuple[str, int | None]] = frozenset()  # rules and job ids whose flags are open


class Severity(StrEnum):
    """How bad a flag is, mildest first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


Evidence = str | int | float | bool | None | list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A rule that holds now, before it is compared with what was flagged before."""

    rule: str
    severity: Severity
    run: RunKey
    job_id: int | None
    user: str
    evidence: Mapping[str, Evidence]
    advice: str
    tells: tuple[str, ...] = ("user",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """A finding over time: it opens, may worsen, and resolves."""

    flag_id: int | None = None
    finding: Finding
    opened_at: datetime
    worsened_at: datetime | None = None
    resolved_at: datetime | None = None
