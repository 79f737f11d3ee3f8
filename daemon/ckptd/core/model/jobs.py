"""Jobs and attempts as Slurm reports them: states, the queue at one moment, how an execution ended."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import PurePosixPath
from typing import NamedTuple


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
    UNKNOWN = "UNKNOWN"  # a state of a newer Slurm, or an end whose cause is not known


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
_HELD_STATES = frozenset({JobState.REQUEUE_HOLD, JobState.SPECIAL_EXIT})
# Slurm's words; those with blanks come from its programs, with underlines from its libraries
_HELD_REASONS = frozenset(
    {"jobheldadmin", "jobhelduser", "jobholdmaxrequeue", "job_requeued_in_held_state", "launch_failed_requeued_held"}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One Slurm job as one poll shows it; an array task is a job."""

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
    reason: str = ""  # Slurm's reason why it waits or ended
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
    command: str = field(default="", compare=False)  # with its arguments; not recorded, and so not compared
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
        """The name of this job for Slurm's commands: the job id of an array's last task would mean the whole array."""
        if self.array_job_id is not None and self.array_task_id is not None:
            return f"{self.array_job_id}_{self.array_task_id}"
        return str(self.job_id)

    @property
    def is_running(self) -> bool:
        """Whether its processes are running now; a suspended or completing job's are not."""
        return self.state in RUNNING_STATES

    @property
    def is_held(self) -> bool:
        """Whether it waits in the queue until somebody releases it."""
        if self.state is JobState.PENDING:
            return self.reason.strip("()").replace(" ", "_").lower() in _HELD_REASONS
        return self.state in _HELD_STATES


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueSnapshot:
    """Every job that slurmctld showed in one query."""

    cluster: str
    polled_at: datetime
    jobs: tuple[Job, ...]
    warning: str | None = None  # for the administrator, about what the query cost
    slurm_name: str | None = None  # what Slurm calls the cluster, if the configuration says another name


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
    suspended: timedelta | None = None  # how long it was suspended; None if not reported
    het_job_id: int | None = None  # of a heterogeneous job: its first part


@dataclass(frozen=True, kw_only=True, slots=True)
class PastJob:
    """One ended execution of a job, with everything that accounting reports about the job."""

    job: Job
    restart_count: int | None = None  # None: this Slurm's accounting does not report it
    suspended: timedelta = timedelta(0)  # how long it was suspended

    @property
    def started_at(self) -> datetime:
        assert self.job.started_at is not None
        return self.job.started_at

    @property
    def ended_at(self) -> datetime:
        assert self.job.ends_at is not None
        return self.job.ends_at


class PastJobs(NamedTuple):
    """Every execution that ended between two instants; `until` is the second, or an earlier one."""

    jobs: tuple[PastJob, ...]
    until: datetime


class Suspension(NamedTuple):
    """A time in which an attempt did not run though it held its nodes."""

    began_at: datetime
    ended_at: datetime | None = None


class RestartKind(StrEnum):
    """How an attempt that is not the first of its run was started."""

    REQUEUE = "requeue"
    ARRAY = "array"
    RESUBMIT = "resubmit"


class EndCause(StrEnum):
    """Why an attempt ended, as recorded with its lost work."""

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
    """A job's identity. It includes the time when the job was first seen, because Slurm reuses job ids."""

    cluster: str
    job_id: int
    first_seen_at: datetime


class LimitSignal(NamedTuple):
    """The meaning of `--signal`: a signal before the limit, with `B:` only to the batch shell."""

    word: str  # such as `B:USR1`
    lead_seconds: int


class Hold(NamedTuple):
    """A hold of a job: attempts before it do not count after the job is released."""

    next_restart: int  # the restart count of its next attempt
    broken_off: frozenset[int] = frozenset()  # restart counts of the attempts that ckptd's holds ended
    is_own: bool = False  # whether ckptd held it


class Maintenance(NamedTuple):
    """A reservation of nodes for maintenance."""

    name: str
    begins_at: datetime
    ends_at: datetime
    nodes: frozenset[str]
