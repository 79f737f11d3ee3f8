"""Documents about the locations of a run, and its newest complete checkpoint in any of them."""

from datetime import datetime
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from ckptd.core.model import Certainty
from ckptd.present.responses.field_types import Count, Epoch, LocationRole, Step


class ComparisonDocument(TypedDict):
    """What reading every byte of a copy and of its original has shown."""

    path: Annotated[str, Field(description="The copy.")]
    original: Annotated[str, Field(description="The checkpoint that it is a copy of.")]
    compared_at: Annotated[datetime, Field(description="When both were compared.")]
    is_same: Annotated[bool, Field(description="Whether the content is the same; if not, it does not count as a copy.")]
    differing_file: Annotated[
        str | None, Field(description="The first file that differs, by its name in the checkpoint.")
    ]
    is_by_owner: Annotated[bool, Field(description="Whether a job of the files' owner says so, and not this node.")]


class LocationDocument(TypedDict):
    """One directory where a run keeps checkpoints."""

    path: Annotated[str, Field(description="The directory; as it was named if ckptd cannot use it.")]
    role: Annotated[
        LocationRole, Field(description="The primary location, one that earlier starts of the job saved to, or a copy.")
    ]
    trouble: Annotated[
        str | None, Field(description="Why it is not known what is there, or not completely; null if it is.")
    ]
    scanned_at: Annotated[datetime | None, Field(description="Time of the last scan.")]
    checkpoints: Annotated[Count, Field(description="Number of complete checkpoints there.")]
    newest_complete: Annotated[str | None, Field(description="The newest complete checkpoint there.")]
    newest_saved_at: Annotated[
        datetime | None, Field(description="When its state was saved: of a copy, when its original was written.")
    ]
    compared: Annotated[
        ComparisonDocument | None,
        Field(description="The latest comparison of a copy there, one that differs first; null: none is known."),
    ]


class NewestCompleteDocument(TypedDict):
    """The newest complete checkpoint in any location of a run."""

    path: Annotated[str, Field(description="The checkpoint.")]
    location: Annotated[str, Field(description="The location that it is in.")]
    saved_at: Annotated[datetime, Field(description="When its state was saved.")]
    epoch: Epoch
    step: Step
    certainty: Annotated[
        Certainty, Field(description="`proven` if every location was read completely, otherwise `inferred`.")
    ]
