"""Field types that several documents share."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

Count = Annotated[int, Field(ge=0)]
UserId = Annotated[int, Field(ge=0, le=2**32 - 1)]

Cluster = Annotated[str, Field(description="Slurm's name of the cluster.")]
User = Annotated[str, Field(description="Name of the owner's account.")]
Uid = Annotated[UserId, Field(description="Uid of the owner.")]
RunName = Annotated[str, Field(description="Identifies the run together with `cluster` and `uid`.")]
JobId = Annotated[int, Field(description="Slurm's job id.")]
RestartCount = Annotated[Count, Field(description="How many times Slurm restarted the job.")]
ArrayJobId = Annotated[int | None, Field(description="Job id of the array; null if the job is not an array task.")]
ArrayTaskId = Annotated[int | None, Field(description="Index in the array; null if the job is not an array task.")]
LocationRole = Literal["primary", "earlier", "copy"]
LocatedBy = Annotated[str | None, Field(description="How ckptd found the checkpoint directory; null if it is unknown.")]
Epoch = Annotated[float | None, Field(description="Epoch of the checkpoint; null if it is unknown.")]
Step = Annotated[int | None, Field(description="Step of the checkpoint; null if it is unknown.")]
NewestEpoch = Annotated[float | None, Field(description="Epoch of the newest complete checkpoint.")]
NewestStep = Annotated[int | None, Field(description="Step of the newest complete checkpoint.")]
NewestCheckpointAt = Annotated[
    datetime | None, Field(description="When the newest complete checkpoint was written; null if there is none.")
]
CheckpointCount = Annotated[Count, Field(description="Number of checkpoints that exist.")]
CheckpointBytes = Annotated[Count, Field(description="Total size of the checkpoints that exist.")]
SizeBytes = Annotated[Count, Field(description="Size of all files of the checkpoint.")]
OpenRules = Annotated[list[str], Field(description="Rules of the open flags.")]


class ReasonedPath(TypedDict):
    """A path with the reason why it could not be read."""

    path: Annotated[str, Field(description="The path.")]
    reason: Annotated[str, Field(description="Why it could not be read.")]
