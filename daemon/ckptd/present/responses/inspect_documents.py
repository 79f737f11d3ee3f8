"""What `ckptd inspect --json` and `ckptd newest --json` print."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ckptd.core.model import CheckpointState, Level, Role
from ckptd.present.responses.field_types import Count, Epoch, ReasonedPath, Step


class MemberDocument(TypedDict):
    """A part of a checkpoint that consists of several."""

    path: Annotated[str, Field(description="The part, relative to the parent of the checkpoint.")]
    format: Annotated[str, Field(description="Name of the format.")]
    role: Annotated[Role, Field(description="What the part can be used for.")]
    state: Annotated[CheckpointState, Field(description="Whether it can be restored.")]
    reason: Annotated[str | None, Field(description="Why it is not complete.")]


class InspectedDocument(TypedDict):
    """A checkpoint on the disk, or a link to one."""

    path: Annotated[str, Field(description="The file or directory, or the prefix of a checkpoint with several files.")]
    format: Annotated[str, Field(description="Name of the format; `link` for a link without a checkpoint.")]
    files: Annotated[list[str], Field(description="All files, relative to the parent of `path`.")]
    size_bytes: Annotated[Count | None, Field(description="Size of all files; null for a link without a checkpoint.")]
    modified_at: Annotated[str | None, Field(description="When it was last written (ISO 8601).")]
    state: Annotated[CheckpointState, Field(description="Whether it can be restored.")]
    reason: Annotated[str | None, Field(description="Why it is not complete, or where the link leads.")]
    level: Annotated[Level, Field(description="How thoroughly it was checked.")]
    epoch: Epoch
    step: Step
    is_best: Annotated[bool | None, Field(description="Whether it is the best one; null if nothing tells.")]
    metrics: Annotated[dict[str, float | None], Field(description="Metrics that the checkpoint states, by name.")]
    unsafe: Annotated[list[str], Field(description="Names in its pickles that may execute code when loaded.")]
    role: Annotated[Role | None, Field(description="What it can be used for; null for a link without a checkpoint.")]
    role_evidence: Annotated[str, Field(description="How the role is known.")]
    is_result: Annotated[bool, Field(description="Whether users also analyse it, so that it is kept like data.")]
    members: Annotated[list[MemberDocument], Field(description="Its parts, if it has several.")]
    series: Annotated[str, Field(description="Its path with `#` for the progress number; empty if unknown.")]
    progress: Annotated[list[int], Field(description="Progress numbers in the name.")]
    progress_evidence: Annotated[str, Field(description="Why these numbers count progress.")]
    grouping_doubt: Annotated[str | None, Field(description="Why the grouping of its files is unknown.")]
    locations: Annotated[
        list[str],
        Field(description="Its copies in other PATHs: names and sizes are equal, at level `full` the content, too."),
    ]


class InspectDocument(TypedDict):
    """What `ckptd inspect --json` prints."""

    checkpoints: Annotated[list[InspectedDocument], Field(description="The checkpoints found.")]
    unrecognised: Annotated[list[str], Field(description="Files that belong to no checkpoint.")]
    errors: Annotated[list[ReasonedPath], Field(description="What could not be read.")]


class SkippedDocument(TypedDict):
    """A checkpoint that is newer than the one that is printed, and not complete."""

    path: Annotated[str, Field(description="The file or directory.")]
    state: Annotated[CheckpointState, Field(description="Why it cannot be restored.")]
    reason: Annotated[str | None, Field(description="What is wrong with it.")]


class ElsewhereDocument(TypedDict):
    """A complete checkpoint in another directory than the one that is printed, perhaps of another run."""

    path: Annotated[str, Field(description="The file or directory.")]
    is_further: Annotated[bool, Field(description="Whether it is at a later step, or epoch where one has no step.")]
    is_newer: Annotated[bool, Field(description="Whether it has the same role and was written later.")]
    role: Annotated[Role, Field(description="What it can be used for.")]
    epoch: Epoch
    step: Step
    modified_at: Annotated[str, Field(description="When it was last written (ISO 8601).")]


class NewestDocument(TypedDict):
    """What `ckptd newest --json` prints."""

    outcome: Annotated[Literal["found", "none", "unknown"], Field(description="Exit status 0, 1 and 3.")]
    path: Annotated[str | None, Field(description="What the framework's own resume option takes; null if not found.")]
    checkpoint: Annotated[InspectedDocument | None, Field(description="The checkpoint; null if not found.")]
    notes: Annotated[list[str], Field(description="What is worth knowing before it is loaded.")]
    elsewhere: Annotated[
        list[ElsewhereDocument],
        Field(description="What other directories hold that is further or newer, the furthest first; at most five."),
    ]
    skipped: Annotated[list[SkippedDocument], Field(description="Newer ones that are not complete.")]
    unknown: Annotated[
        list[ReasonedPath], Field(description="What may be newer and complete, and why that is unknown.")
    ]
