"""The document of `ckptd doctor`."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ckptd.present.responses.field_types import Count


class DoctorCheckDocument(TypedDict):
    """What one check found."""

    topic: Annotated[str, Field(description="What was checked, such as `slurm`.")]
    account: Annotated[str, Field(description="The account from which it was checked.")]
    verdict: Annotated[Literal["ok", "warning", "error"], Field(description="How the check ended.")]
    text: Annotated[str, Field(description="What was found.")]
    advice: Annotated[str | None, Field(description="What to do; null if nothing is wrong.")]


class DoctorDocument(TypedDict):
    """What `ckptd doctor --json` prints."""

    checks: Annotated[list[DoctorCheckDocument], Field(description="One entry for each finding.")]
    errors: Annotated[Count, Field(description="Number of errors.")]
    warnings: Annotated[Count, Field(description="Number of warnings.")]
