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


class ComparedCopyDocument(TypedDict):
    """The result for one copy."""

    path: Annotated[str, Field(description="The copy.")]
    original: Annotated[str, Field(description="The checkpoint that it is a copy of.")]
    run: Annotated[str, Field(description="The run's checkpoint directory.")]
    size_bytes: SizeBytes
    result: Annotated[
        Literal["same", "differs", "unknown"],
        Field(description="Whether the content is the same; `unknown`: it could not be compared."),
    ]
    differing_file: Annotated[
        str | None, Field(description="The first file that differs, by its name in the checkpoint.")
    ]
    reason: Annotated[str | None, Field(description="Why it could not be compared.")]


class VerifyDocument(TypedDict):
    """What `ckptd verify --json` prints."""

    checkpoints: Annotated[list[VerifiedCheckpointDocument], Field(description="The checkpoints, in the order read.")]
    copies: Annotated[list[ComparedCopyDocument], Field(description="With --copies: the copies, in the order read.")]
    verified_before: Annotated[
        Count,
        Field(
            description="Checkpoints that were verified, or copies that had the same content, before: not read again."
        ),
    ]
    not_reached: Annotated[
        Count, Field(description="Checkpoints or copies that were not read because the command was stopped.")
    ]
    is_stopped: Annotated[bool, Field(description="Whether a signal stopped the command before the end.")]
