"""Documents about jobs, flags, and the runs that have a job in the queue."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from ckptd.core.model import JobState, Severity
from ckptd.present.responses.field_types import (
    ArrayJobId,
    ArrayTaskId,
    CheckpointBytes,
    CheckpointCount,
    Cluster,
    Count,
    JobId,
    LocatedBy,
    NewestCheckpointAt,
    NewestEpoch,
    NewestStep,
    OpenRules,
    RestartCount,
    RunName,
    Uid,
    User,
)


class RunKeyFields(TypedDict):
    """What identifies a run."""

    cluster: Cluster
    uid: Uid
    run: RunName


class _SavedFields(TypedDict):
    """Where a run's checkpoints are, and the newest complete one."""

    directory: Annotated[str | None, Field(description="The checkpoint directory; null if it is unknown.")]
    located_by: LocatedBy
    locations: Annotated[list[str], Field(description="Its directories: the primary location, then the copies.")]
    epoch: NewestEpoch
    step: NewestStep
    newest_checkpoint_at: NewestCheckpointAt
    newest_checkpoint_age_seconds: Annotated[
        int | None, Field(description="Age of the newest complete checkpoint; null if there is none.")
    ]
    checkpoints: CheckpointCount
    checkpoint_bytes: CheckpointBytes


class ListedJobDocument(RunKeyFields, _SavedFields):
    """A started job, as `ckptd jobs` lists it."""

    job_id: JobId
    array_job_id: ArrayJobId
    array_task_id: ArrayTaskId
    user: User
    name: Annotated[str, Field(description="Name of the job.")]
    partition: Annotated[str, Field(description="Partition of the job.")]
    state: Annotated[JobState, Field(description="Slurm's state of the job.")]
    restart_count: RestartCount
    time_left_seconds: Annotated[Count | None, Field(description="Time until the limit; null: the limit is unknown.")]
    flags: OpenRules


class JobDocument(ListedJobDocument):
    """A started job."""

    severity: Annotated[Severity | None, Field(description="Severity of the worst open flag; null if there is none.")]


class RunRowDocument(RunKeyFields, _SavedFields):
    """A run with a started job."""

    user: User
    jobs: Annotated[list[int], Field(description="Ids of the run's jobs that have started.")]
    states: Annotated[list[JobState], Field(description="States of these jobs.")]
    restart_count: Annotated[Count, Field(description="The highest restart count of these jobs.")]
    time_left_seconds: Annotated[
        Count | None,
        Field(description="Time until the limit of the job that ends first; null: the limit is unknown."),
    ]
    flags: OpenRules
    severity: Annotated[Severity | None, Field(description="Severity of the worst open flag; null if there is none.")]


class FlagDocument(TypedDict):
    """A health rule that holds, or that held until `resolved_at`."""

    rule: Annotated[str, Field(description="Name of the rule.")]
    severity: Annotated[Severity, Field(description="How bad it is.")]
    cluster: Cluster
    job_id: Annotated[int | None, Field(description="Slurm's job id; null if the flag is not about one job.")]
    user: User
    run: RunName
    opened_at: Annotated[datetime, Field(description="When ckptd opened the flag.")]
    resolved_at: Annotated[datetime | None, Field(description="When ckptd resolved the flag; null while it is open.")]
    evidence: Annotated[dict[str, Any], Field(description="The evidence of the flag, by name.")]
    advice: Annotated[str, Field(description="What to do, with the command to type if there is one.")]
    title: Annotated[str, Field(description="The flag in a few words.")]
    statement: Annotated[str, Field(description="What is wrong; empty if an earlier version recorded the flag.")]
    command: Annotated[str | None, Field(description="To type, or a line for the batch script.")]
    uid: Uid


class JobListDocument(TypedDict):
    """What `ckptd jobs --json` prints."""

    jobs: Annotated[list[ListedJobDocument], Field(description="The jobs that have started and not ended.")]
    polled_at: Annotated[datetime | None, Field(description="Time of the last poll of Slurm.")]


class FlagListDocument(TypedDict):
    """What `ckptd flags --json` prints."""

    flags: Annotated[list[FlagDocument], Field(description="The open flags; with --all also the resolved ones.")]
