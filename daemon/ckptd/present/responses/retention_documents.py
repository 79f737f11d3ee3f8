"""Documents about plans, their outcome and the trash."""

from datetime import datetime
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from ckptd.core.model import Role
from ckptd.present.responses.field_types import Count, ReasonedPath, SizeBytes, Uid, User

CheckpointPath = Annotated[str, Field(description="The checkpoint.")]


class PlanTotalsDocument(TypedDict):
    """The sums of a plan."""

    runs: Annotated[Count, Field(description="Runs from which checkpoints are removed.")]
    remove: Annotated[Count, Field(description="Checkpoints to remove now.")]
    remove_bytes: Annotated[Count, Field(description="Their total size.")]
    wait: Annotated[Count, Field(description="Checkpoints that a cap or a circuit breaker defers.")]
    wait_bytes: Annotated[Count, Field(description="Their total size.")]


class MemberSummaryDocument(TypedDict):
    """The files of a checkpoint."""

    count: Annotated[Count, Field(description="Number of files.")]
    parts: Annotated[list[str], Field(description="Paths of its parts, if it has several.")]


class GroupingDocument(TypedDict):
    """How ckptd knows which files are one checkpoint."""

    progress: Annotated[list[int], Field(description="Progress numbers in the name.")]
    evidence: Annotated[str, Field(description="Why these numbers count progress.")]
    is_directory: Annotated[bool, Field(description="Whether it is a directory that holds nothing else.")]
    doubt: Annotated[str | None, Field(description="Why the grouping is unknown; such a checkpoint stays.")]


class DecisionDocument(TypedDict):
    """Whether one checkpoint stays, and why."""

    path: CheckpointPath
    size_bytes: SizeBytes
    reasons: Annotated[list[str], Field(description="Every reason for the decision.")]
    role: Annotated[Role, Field(description="What the checkpoint can be used for.")]
    role_evidence: Annotated[str, Field(description="How the role is known.")]
    members: Annotated[MemberSummaryDocument, Field(description="Its files.")]
    series: Annotated[str | None, Field(description="Its path with `#` for the progress number.")]
    grouping: Annotated[GroupingDocument, Field(description="How ckptd knows which files belong to it.")]


class PlannedRunDocument(TypedDict):
    """The decisions about one run."""

    run: Annotated[str, Field(description="The run's checkpoint directory.")]
    keep: Annotated[list[DecisionDocument], Field(description="Checkpoints that stay, newest first.")]
    remove: Annotated[list[DecisionDocument], Field(description="Checkpoints to remove, oldest first.")]
    skipped: Annotated[str | None, Field(description="Why the run is skipped and keeps everything.")]
    refused_wishes: Annotated[list[str], Field(description="The same as `limited_settings`, under its former name.")]
    limited_settings: Annotated[list[str], Field(description="User settings that the site limits.")]


class PlanDocument(TypedDict):
    """What `ckptd plan --json` prints."""

    plan: Annotated[str, Field(description="Id of the plan, for `ckptd prune --plan`.")]
    totals: Annotated[PlanTotalsDocument, Field(description="Sums over all runs.")]
    runs: Annotated[list[PlannedRunDocument], Field(description="The decisions, by run.")]


class RemovalDocument(TypedDict):
    """The outcome for one checkpoint that a plan removes."""

    path: CheckpointPath
    result: Annotated[
        str, Field(description="`moved`; or why it was not: `waits`, `left`, `unknown`, `refused`, `failed`, `undone`.")
    ]
    reason: Annotated[str | None, Field(description="The reason, if it was not moved.")]


class PruneDocument(TypedDict):
    """What `ckptd prune --json` prints."""

    plan: Annotated[str, Field(description="Id of the plan.")]
    removals: Annotated[list[RemovalDocument], Field(description="The outcome for each checkpoint to remove.")]
    moved_bytes: Annotated[Count, Field(description="Total size of what was moved to the trash.")]
    is_stopped: Annotated[bool, Field(description="Whether a signal stopped the command before the end.")]


class TrashEntryDocument(TypedDict):
    """A checkpoint in the trash."""

    id: Annotated[str, Field(description="Names the entry for `ckptd trash restore` and `empty`.")]
    path: Annotated[str, Field(description="Where the checkpoint was.")]
    place: Annotated[str, Field(description="The trash directory.")]
    state: Annotated[str, Field(description="`held`; or `moving` or `deleting` if that was interrupted.")]
    size_bytes: SizeBytes
    uid: Uid
    user: User
    moved_at: Annotated[datetime, Field(description="When it was moved to the trash.")]
    hold_ends_at: Annotated[datetime | None, Field(description="Until when it is kept; null if that is unknown.")]
    reasons: Annotated[list[str], Field(description="Why it was moved.")]
    policy: Annotated[str | None, Field(description="Policy of the run.")]
    moved_by: Annotated[str | None, Field(description="Who moved it.")]
    cluster: Annotated[str | None, Field(description="Cluster of the run.")]
    format: Annotated[str | None, Field(description="Format of the checkpoint.")]
    role: Annotated[str | None, Field(description="What the checkpoint can be used for.")]


class TrashTotalDocument(TypedDict):
    """One user's share of the trash."""

    user: User
    uid: Uid
    checkpoints: Annotated[Count, Field(description="Number of checkpoints in the trash.")]
    size_bytes: Annotated[Count, Field(description="Their total size.")]


class TrashListDocument(TypedDict):
    """What `ckptd trash list --json` prints."""

    trash: Annotated[list[TrashEntryDocument], Field(description="The entries.")]
    users: Annotated[list[TrashTotalDocument], Field(description="Totals by user, largest first.")]
    errors: Annotated[list[ReasonedPath], Field(description="What could not be read.")]


class TrashScanDocument(TypedDict):
    """What `ckptd trash scan --json` prints."""

    recorded: Annotated[list[TrashEntryDocument], Field(description="The entries that were recorded now.")]
    counts: Annotated[dict[str, Count], Field(description="Number of entries found, by what became of them.")]
    errors: Annotated[list[ReasonedPath], Field(description="What could not be read.")]
