"""What every section of the configuration shares."""

import difflib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ckptd.core.quantities import parse_duration, parse_size
from ckptd.errors import CkptdError

TEMPLATE_VARIABLES = dict.fromkeys(
    [
        "work_dir",
        "user",
        "home",
        "account",
        "partition",
        "cluster",
        "job_name",
        "job_id",
        "array_job_id",
        "array_task_id",
    ]
)
PATTERNS = ("partition", "account", "user", "qos", "job_name", "format")
DEFAULT_PATH = Path("/etc/ckptd/config.toml")
ENVIRONMENT_PREFIX = "CKPTD_"


class ConfigError(CkptdError):
    """The configuration cannot be used; the text lists every error in it."""


def _match_something(pattern: str) -> str:
    if not pattern:
        raise ValueError("an empty pattern matches nothing; leave the line out to match all")
    return pattern


Pattern = Annotated[str, AfterValidator(_match_something)]  # of what no job is without
Duration = Annotated[timedelta, BeforeValidator(parse_duration), Field(gt=timedelta(0), le=timedelta(days=36_500))]
Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0)]


class Section(BaseModel):
    """One table of the configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)


def nearest(name: str, known: Mapping[str, object]) -> str:
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {match[0]!r}?" if match else ""
