"""Documents about one run: its attempts, checkpoints, forecast, advice and timeline."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from ckptd.core.model import Certainty, CheckpointState, EndCause, JobState, Level, RestartKind, ResumeReason
from ckptd.present.responses.field_types import (
    ArrayJobId,
    ArrayTaskId,
    CheckpointBytes,
    CheckpointCount,
    Cluster,
    Count,
    Epoch,
    JobId,
    LocatedBy,
    NewestCheckpointAt,
    NewestEpoch,
    NewestStep,
    RestartCount,
    RunName,
    SizeBytes,
    Step,
    Uid,
    User,
)
from ckptd.present.responses.job_documents import FlagDocument, RunKeyFields
from ckptd.present.responses.location_documents import LocationDocument, NewestCompleteDocument


class EndedRunDocument(RunKeyFields):
    """A run without a job in the queue."""

    user: User
    job_id: Annotated[int, Field(description="Slurm's id of the latest job.")]
    name: Annotated[str, Field(description="Name of the latest job.")]
    attempts: Annotated[Count, Field(description="Number of attempts.")]
    ended_at: Annotated[datetime, Field(description="When the latest attempt ended.")]
    cause: Annotated[EndCause | None, Field(description="Why the latest attempt ended.")]
    epoch: NewestEpoch
    step: NewestStep
    newest_checkpoint_at: NewestCheckpointAt
    checkpoints: CheckpointCount
    checkpoint_bytes: CheckpointBytes


class UnsavedDocument(TypedDict):
    """Work that was not saved."""

    seconds: Annotated[Count, Field(description="Unsaved work, at least.")]
    high_seconds: Annotated[Count, Field(description="At most; more than `seconds` if its saves are not known.")]
    node_seconds: Annotated[Count, Field(description="The unsaved work times the nodes.")]
    cpu_seconds: Annotated[Count, Field(description="The unsaved work times the CPUs.")]
    gpu_seconds: Annotated[Count, Field(description="The unsaved work times the GPUs.")]


class RedoneDocument(TypedDict):
    """Saved work that is computed again, because later attempts did not resume from it."""

    certainty: Annotated[Certainty, Field(description="How surely it is known.")]
    low_seconds: Annotated[int | None, Field(description="At least; null: not known.")]
    high_seconds: Annotated[int | None, Field(description="At most; null: not known.")]
    low_node_seconds: Annotated[int | None, Field(description="At least, times the nodes.")]
    low_cpu_seconds: Annotated[int | None, Field(description="At least, times the CPUs.")]
    low_gpu_seconds: Annotated[int | None, Field(description="At least, times the GPUs.")]


class LostPartsDocument(TypedDict):
    """Both parts of the work that an attempt lost."""

    unsaved: Annotated[UnsavedDocument, Field(description="Unsaved work at its end.")]
    redone: Annotated[RedoneDocument, Field(description="Saved work that is computed again.")]


class RedoneTotalDocument(TypedDict):
    """Saved work that is computed again, over the attempts of which it is known."""

    low_seconds: Annotated[Count, Field(description="At least.")]
    high_seconds: Annotated[Count, Field(description="At most.")]
    low_node_seconds: Annotated[Count, Field(description="At least, times the nodes.")]
    low_cpu_seconds: Annotated[Count, Field(description="At least, times the CPUs.")]
    low_gpu_seconds: Annotated[Count, Field(description="At least, times the GPUs.")]
    unknown_count: Annotated[Count, Field(description="Attempts of which it is not known.")]


class AttemptLossFields(TypedDict):
    """The work that an attempt lost; nulls while it runs."""

    saved_at: Annotated[datetime | None, Field(description="Time of the newest usable checkpoint at its end.")]
    lost_seconds: Annotated[int | None, Field(description="Unsaved work at its end, at least.")]
    lost_node_seconds: Annotated[int | None, Field(description="The lost work times the nodes.")]
    lost_cpu_seconds: Annotated[int | None, Field(description="The lost work times the CPUs.")]
    lost_gpu_seconds: Annotated[int | None, Field(description="The lost work times the GPUs.")]
    is_loss_final: Annotated[
        bool | None,
        Field(description="false: not final, a checkpoint of its last minutes may still be found"),
    ]
    lost: Annotated[LostPartsDocument | None, Field(description="Both parts; null while it runs.")]


class ResumeDocument(TypedDict):
    """What an attempt resumed from, and how surely that is known."""

    path: Annotated[
        str | None, Field(description="The checkpoint; null: none, or not known where `certainty` is unknown.")
    ]
    certainty: Annotated[Certainty, Field(description="How surely it is known.")]
    reason: Annotated[ResumeReason, Field(description="What it follows from, or why it is not known.")]
    evidence: Annotated[dict[str, Any], Field(description="The numbers that it follows from, by name.")]
    candidates: Annotated[list[str], Field(description="All checkpoints that it may have loaded.")]
    equals: Annotated[
        list[str], Field(description="Copies of the same save as `path`, any of which it may have loaded.")
    ]
    may_be_fresh: Annotated[bool, Field(description="Whether it may have loaded none of them.")]
    text: Annotated[str, Field(description="Completes the phrase: resumed from ...")]


class AttemptDocument(AttemptLossFields):
    """One execution of a job."""

    cluster: Cluster
    job_id: JobId
    restart_count: RestartCount
    array_job_id: ArrayJobId
    array_task_id: ArrayTaskId
    kind: Annotated[RestartKind | None, Field(description="Kind of restart; null for the first attempt of a run.")]
    state: Annotated[JobState, Field(description="Slurm's state of the attempt.")]
    cause: Annotated[EndCause | None, Field(description="Why it ended; null while it runs.")]
    started_at: Annotated[datetime, Field(description="When it started.")]
    ended_at: Annotated[datetime | None, Field(description="When it ended; null while it runs.")]
    node_count: Annotated[Count, Field(description="Number of nodes.")]
    cpu_count: Annotated[Count, Field(description="Number of CPUs.")]
    gpu_count: Annotated[Count, Field(description="Number of GPUs.")]
    resumed_from: Annotated[
        ResumeDocument | None, Field(description="What it resumed from; null while nothing is known of it.")
    ]


class LossTotalDocument(TypedDict):
    """The work that all ended attempts of a run lost."""

    seconds: Annotated[Count, Field(description="Unsaved work, at least.")]
    high_seconds: Annotated[Count, Field(description="At most.")]
    node_seconds: Annotated[Count, Field(description="The lost work times the nodes.")]
    cpu_seconds: Annotated[Count, Field(description="The lost work times the CPUs.")]
    gpu_seconds: Annotated[Count, Field(description="The lost work times the GPUs.")]
    redone: Annotated[RedoneTotalDocument, Field(description="Saved work that is computed again.")]


class CheckpointDocument(TypedDict):
    """A checkpoint on record."""

    path: Annotated[str, Field(description="The file or directory, or the prefix of a checkpoint with several files.")]
    format: Annotated[str, Field(description="Name of the format.")]
    state: Annotated[CheckpointState, Field(description="Whether it can be restored.")]
    reason: Annotated[str | None, Field(description="Why it is not complete.")]
    level: Annotated[Level, Field(description="How thoroughly ckptd checked it.")]
    epoch: Epoch
    step: Step
    is_best: Annotated[bool | None, Field(description="Whether it is the best one; null if nothing tells.")]
    size_bytes: SizeBytes
    modified_at: Annotated[datetime, Field(description="When it was last written.")]
    completed_at: Annotated[datetime | None, Field(description="When it was complete; null if it never was.")]
    deleted_at: Annotated[
        datetime | None, Field(description="When ckptd found it deleted or replaced, or moved it to the trash.")
    ]
    pruned_at: Annotated[datetime | None, Field(description="When ckptd moved it to the trash.")]
    is_pinned: Annotated[bool, Field(description="Whether `ckptd pin` keeps it.")]


class FreeSpaceDocument(TypedDict):
    """Free space and quota."""

    free_bytes: Annotated[int | None, Field(description="Free space on the file system.")]
    quota_left_bytes: Annotated[int | None, Field(description="What the owner's quota leaves; null: no limit known.")]
    quota_error: Annotated[str | None, Field(description="Why the quota is unknown.")]


class GoalDocument(TypedDict):
    """How far a job gets towards the goal of its run."""

    unit: Annotated[str, Field(description="`epoch` or `step`.")]
    goal: Annotated[float, Field(description="The goal.")]
    reached: Annotated[float, Field(description="What the newest checkpoint has reached.")]
    is_declared: Annotated[bool, Field(description="true: set by the owner; false: stated in the checkpoints.")]
    fits: Annotated[int, Field(description="How many more units fit before the time limit.")]
    is_fitting: Annotated[bool, Field(description="Whether the goal is expected before the time limit.")]
    done_at: Annotated[datetime | None, Field(description="When the goal is expected; null once it is reached.")]
    more_jobs: Annotated[
        int | None, Field(description="Further jobs of the same limit needed; null without a limit or progress.")
    ]


class AtLimitDocument(TypedDict):
    """What is expected at the time limit of a job."""

    ends_at: Annotated[datetime, Field(description="The time limit.")]
    saves_that_fit: Annotated[int | None, Field(description="Checkpoints expected before the limit.")]
    epochs_that_fit: Annotated[
        int | None, Field(description="Epochs that fit before the limit; null if next_checkpoint_at is.")
    ]
    steps_that_fit: Annotated[
        int | None, Field(description="Steps that fit before the limit; null if next_checkpoint_at is.")
    ]
    will_be_lost_seconds: Annotated[int | None, Field(description="Work expected to be lost at the limit.")]
    goal: Annotated[GoalDocument | None, Field(description="The run's goal; null if none is known.")]


class ForecastDocument(TypedDict):
    """The measured rhythm of a run, and what follows from it."""

    interval_seconds: Annotated[int | None, Field(description="Median interval between checkpoints.")]
    save_seconds: Annotated[int | None, Field(description="Median duration of writing a checkpoint.")]
    next_checkpoint_at: Annotated[
        dict[str, datetime | None],
        Field(
            description="When the next checkpoint is expected, by job id; null if no interval is known, or if the job "
            "has saved none for three intervals."
        ),
    ]
    interval_spread_seconds: Annotated[int | None, Field(description="Usual deviation from the interval.")]
    time_to_first_save_seconds: Annotated[
        int | None, Field(description="Usual time from the start of an attempt to its first checkpoint.")
    ]
    size_bytes: Annotated[int | None, Field(description="Usual size of a checkpoint.")]
    growth_bytes: Annotated[int | None, Field(description="Space that each further checkpoint takes.")]
    seconds_per_epoch: Annotated[int | None, Field(description="Time per epoch.")]
    seconds_per_step: Annotated[float | None, Field(description="Time per step.")]
    at_limit: Annotated[dict[str, AtLimitDocument], Field(description="What is expected at the time limit, by job id.")]
    full_at: Annotated[datetime | None, Field(description="When the space is used up at the current rate.")]


class AdviceDocument(TypedDict):
    """The recommended checkpoint interval, by Daly's formula."""

    interval_seconds: Annotated[int, Field(description="The recommended interval.")]
    save_seconds: Annotated[int, Field(description="The measured duration of writing a checkpoint.")]
    mean_time_between_interruptions_seconds: Annotated[
        int, Field(description="How often jobs of this size are interrupted.")
    ]
    is_assumed: Annotated[bool, Field(description="true: no job of this size has ended yet, so the mean is assumed.")]
    interruptions_counted: Annotated[Count, Field(description="Interruptions that the mean rests on.")]
    observed_seconds: Annotated[int, Field(description="Run time in which they were counted.")]
    node_count: Annotated[Count, Field(description="Number of nodes of such jobs.")]


class SummedCheckpointsDocument(TypedDict):
    """Deleted checkpoints of a run that ended long ago, of which only sums are left on record."""

    count: Annotated[Count, Field(description="Number of these checkpoints.")]
    size_bytes: Annotated[int, Field(description="What they took together.")]
    first_seen_at: Annotated[datetime, Field(description="When the first one was seen.")]
    last_seen_at: Annotated[datetime, Field(description="When the last one was seen.")]


class UnrecognisedDocument(TypedDict):
    """A file of no known format that may be a checkpoint."""

    path: Annotated[str, Field(description="The file.")]
    size_bytes: SizeBytes
    modified_at: Annotated[datetime, Field(description="When it was last written.")]


class RunViewDocument(TypedDict):
    """A run whole: what `ckptd show` and the API share."""

    run: RunName
    cluster: Cluster
    user: User
    located_by: LocatedBy
    scanned_at: Annotated[datetime | None, Field(description="Time of the last scan of the checkpoint directory.")]
    scan_problems: Annotated[
        list[str],
        Field(description="Why the last scan was incomplete, or why the checkpoint directory is unknown."),
    ]
    scan_witnesses: Annotated[
        list[str],
        Field(description="The node and job that did the last scan, if only nodes see the directory; empty if not."),
    ]
    unrecognised: Annotated[
        UnrecognisedDocument | None,
        Field(description="If no checkpoint is on record: the newest file of no known format, which may be one."),
    ]
    setting_warnings: Annotated[
        list[str],
        Field(description="Settings in a comment or .ckptd.toml that have no effect or that the site limits."),
    ]
    locations: Annotated[list[LocationDocument], Field(description="The primary location first; empty if unknown.")]
    newest_complete: Annotated[
        NewestCompleteDocument | None,
        Field(description="The newest complete checkpoint in any location; null if none is known."),
    ]
    free_space: Annotated[FreeSpaceDocument, Field(description="The space that is left for checkpoints.")]
    attempts: Annotated[list[AttemptDocument], Field(description="The latest 500, oldest first.")]
    earlier_attempt_count: Annotated[Count, Field(description="Number of earlier attempts, all ended.")]
    lost: Annotated[LossTotalDocument, Field(description="Work that all ended attempts lost.")]
    checkpoints: Annotated[list[CheckpointDocument], Field(description="The newest 64, oldest first.")]
    summed_checkpoints: Annotated[
        SummedCheckpointsDocument | None,
        Field(description="Deleted checkpoints of a run that ended long ago, summed up; null if there are none."),
    ]
    flags: Annotated[list[FlagDocument], Field(description="The open and the resolved flags.")]
    forecast: Annotated[ForecastDocument, Field(description="The measured rhythm, and what follows from it.")]
    advice: Annotated[
        AdviceDocument | None,
        Field(description="The recommended interval; null while no checkpoint was observed being written."),
    ]
    uid: Uid


class AuditDocument(TypedDict):
    """An action on a run's files."""

    begun_at: Annotated[datetime, Field(description="When it began.")]
    actor: Annotated[str, Field(description="Who acted.")]
    action: Annotated[str, Field(description="What was done.")]
    target: Annotated[str, Field(description="The checkpoint.")]
    plan: Annotated[str | None, Field(description="Id of the plan.")]
    reasons: Annotated[list[str], Field(description="Why it was done.")]
    finished_at: Annotated[datetime | None, Field(description="When it ended; null if it did not.")]
    outcome: Annotated[str | None, Field(description="How it ended.")]


class ShownRunDocument(RunViewDocument):
    """A run, as `ckptd show` prints it."""

    actions: Annotated[list[AuditDocument], Field(description="Actions on the run's files, oldest first.")]
    is_truncated: Annotated[bool, Field(description="Whether older checkpoints are left out.")]


class ShowDocument(TypedDict):
    """What `ckptd show --json` prints."""

    runs: Annotated[list[ShownRunDocument], Field(description="The runs of the job or path.")]


class AdvisedRunDocument(TypedDict):
    """A run, as `ckptd advise` prints it."""

    run: RunName
    cluster: Cluster
    user: User
    advice: Annotated[
        AdviceDocument | None,
        Field(description="The recommended interval; null while no checkpoint was observed being written."),
    ]
    measured_interval_seconds: Annotated[int | None, Field(description="Median interval between checkpoints.")]


class AdviseDocument(TypedDict):
    """What `ckptd advise --json` prints."""

    runs: Annotated[list[AdvisedRunDocument], Field(description="The runs of the job or path.")]


class LimitDocument(TypedDict):
    """The time limit of a running job."""

    job_id: JobId
    at: Annotated[datetime, Field(description="The time limit.")]


class LossDocument(TypedDict):
    """Work between the newest usable checkpoint and an end."""

    begins_at: Annotated[datetime, Field(description="Time of the newest usable checkpoint.")]
    ends_at: Annotated[datetime, Field(description="The end of the attempt.")]
    job_id: JobId
    is_forecast: Annotated[bool, Field(description="Whether the end lies ahead.")]


class TimelineDocument(TypedDict):
    """The lost work and the expected events of a run."""

    begins_at: Annotated[datetime, Field(description="Start of the first attempt.")]
    ends_at: Annotated[datetime, Field(description="End of the timeline.")]
    limits: Annotated[list[LimitDocument], Field(description="Time limits of the running jobs.")]
    losses: Annotated[list[LossDocument], Field(description="Lost work, past and expected.")]
    expected_checkpoints_at: Annotated[list[datetime], Field(description="When checkpoints are expected.")]


class RunDocument(RunViewDocument):
    """All data of one run."""

    taken_at: Annotated[datetime, Field(description="When this data was read.")]
    timeline: Annotated[TimelineDocument | None, Field(description="null if the run has no known attempt.")]
