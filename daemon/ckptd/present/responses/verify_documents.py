"""The document about full verifications."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ckptd.present.responses.field_types import Count, SizeBytes


class VerifiedCheckpointDocument(TypedDict):
    """The result for one checkpoint."""

    path: Annotated[str, Field(description="The checkpoint.")]
    run: Annotated[str, Field(description="The run's checkpoint directory.")]
    size_bytes: SizeBytes
    result: Annotated[
        Literal["complete", "damaged", "unknown"],
        Field(description="`complete`: every byte was read; `damaged`; or `unknown`: it could not be verified."),
    ]
    reason: Annotated[str | None, Field(description="Why it is damaged or unknown.")]


class VerifyDocument(TypedDict):
    """What `ckptd verify --json` prints."""

    checkpoints: Annotated[list[VerifiedCheckpointDocument], Field(description="The checkpoints, in the order read.")]
    verified_before: Annotated[Count, Field(description="Checkpoints that were verified before and not read again.")]
    not_reached: Annotated[Count, Field(description="Checkpoints that were not read because the command was stopped.")]
    is_stopped: Annotated[bool, Field(description="Whether a signal stopped the command before the end.")]
