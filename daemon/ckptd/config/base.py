"""Base class, field types and error texts of all configuration sections."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails

from ckptd.core.text.quantities import parse_duration, parse_size

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
_BOUNDS = {
    "greater_than": "above",
    "greater_than_equal": "at least",
    "less_than": "below",
    "less_than_equal": "at most",
}
_DURATION_BOUNDS = {"datetime.timedelta(0)": "0", "datetime.timedelta(days=36500)": "36500d"}
_WRONG_TYPES = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "string_type": "text",
    "path_type": "a path",
}
NOT_A_DURATION = 'is not a duration; use for example "90s", "1h30m" or "7d"'


def _match_something(pattern: str) -> str:
    if not pattern:
        raise ValueError("an empty pattern matches nothing; remove the line to match all")
    return pattern


def _match_a_partition(pattern: str) -> str:
    if not pattern or "," in pattern or pattern != pattern.strip():
        raise ValueError(
            f"{pattern!r} matches no partition; write a list with one pattern per entry, without spaces around it"
        )
    return pattern


def _be_absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError(f"{str(path)!r} is not an absolute path")
    return path


AbsolutePath = Annotated[Path, AfterValidator(_be_absolute)]
Pattern = Annotated[str, AfterValidator(_match_something)]  # of what no job is without
PartitionPattern = Annotated[str, AfterValidator(_match_a_partition)]
Duration = Annotated[
    timedelta, BeforeValidator(parse_duration), Strict(), Field(gt=timedelta(0), le=timedelta(days=36_500))
]
Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0)]


class Section(BaseModel):
    """One immutable table of the configuration; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_switch(cls, given: object, info: ValidationInfo) -> object:
        wanted = cls.model_fields[str(info.field_name)].annotation
        if wanted in {int, float} and (problem := find_switch(given)):
            raise ValueError(problem)
        return given


def find_switch(given: object) -> str | None:
    """Return an error if a boolean is given for a number, which Python would accept."""
    return f"{str(given).lower()} is not a number" if isinstance(given, bool) else None


def describe_problem(problem: ErrorDetails) -> str:
    """Describe a validation error in the terms of a TOML file.

    The text shows values only where the value cannot contain a password.
    """
    kind, given = problem["type"], problem["input"]
    shown = repr(given) if isinstance(given, (str, int, float)) else "a list" if isinstance(given, list) else "a table"
    if kind.startswith("time_delta"):
        return f"{shown} {NOT_A_DURATION}"
    if kind == "tuple_type":
        return f"{shown} is not a list" + (f'; use for example ["{given}"]' if isinstance(given, str) else "")
    if kind in {"model_type", "dict_type"}:
        return "must be a table" if isinstance(given, str) else f"{shown} is not a table"
    if kind in {"literal_error", "enum"}:
        return f"{shown} is not {(problem.get('ctx') or {})['expected']}"
    if kind in _BOUNDS:
        (limit,) = (problem.get("ctx") or {}).values()
        bound = _DURATION_BOUNDS.get(str(limit), limit)
        return f"must be {_BOUNDS[kind]} {bound}"
    if kind in _WRONG_TYPES:
        return f"{shown} is not {_WRONG_TYPES[kind]}"
    return _describe_absence(problem) or problem["msg"].removeprefix("Value error, ")


def _describe_absence(problem: ErrorDetails) -> str | None:
    kind, given = problem["type"], problem["input"]
    if kind == "missing":
        return "must be given"
    if kind == "string_too_short" or (kind == "too_short" and not given):
        return "must not be empty"
    return f"must have at least {(problem.get('ctx') or {})['min_length']} entries" if kind == "too_short" else None
