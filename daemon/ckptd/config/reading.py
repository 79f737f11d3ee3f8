"""Read the configuration from the file and the environment; report all errors of an invalid file at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ckptd.config.base import Section, describe_problem
from ckptd.config.cluster import FileSystemRule, SharedRule, SitePurgeRule, WatchRule
from ckptd.config.health import HealthOverride
from ckptd.config.raw_tables import ConfigError, read_tables
from ckptd.config.retention import RETENTION_TABLES
from ckptd.config.root import Config
from ckptd.core.text.similar_names import nearest


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a setting was given, for error texts."""

    path: Path | None
    variables: Mapping[tuple[str, str], str]
    location: tuple[Any, ...]

    def __str__(self) -> str:
        if variable := self.variables.get(self.location[:2]):
            return f"{variable} in the environment"
        return str(self.path) if self.path else "the environment"


def read_config(path: Path | None, environment: Mapping[str, str]) -> Config:
    """Read the file, then override it with `CKPTD_SECTION__KEY` from the environment.

    Without a path, read the default file if it exists, else use the defaults.

    Raises:
        ConfigError: the file cannot be read or is invalid; the text lists all errors.

    """
    return validate(*read_tables(path, environment))


def validate(
    chosen: Path | None, data: Mapping[str, Any], variables: Mapping[tuple[str, str], str] = MappingProxyType({})
) -> Config:
    """Build the configuration from plain tables that were read from this file and from these variables.

    Raises:
        ConfigError: it is invalid; the text lists all errors.

    """
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        lines = [f"{_Source(chosen, variables, problem['loc'])}: {_describe(problem)}" for problem in error.errors()]
        raise ConfigError("\n".join(lines)) from error


def _describe(problem: ErrorDetails) -> str:
    location = problem["loc"]
    key = ".".join(str(part) for part in location)
    message = describe_problem(problem)
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown setting{nearest(str(location[-1]), _known_keys(location[:-1]))}"
    return f"{key}: {message}" if key else message


def _known_keys(location: tuple[Any, ...]) -> Mapping[str, object]:
    sections: dict[str, type[Section]] = {
        name: field.annotation
        for name, field in Config.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
    }
    if not location:
        return Config.model_fields
    if location[:2] == ("health", "override"):
        return HealthOverride.model_fields
    if location[0] == "retention" and len(location) > 1:
        return RETENTION_TABLES[str(location[1])].model_fields
    rules: dict[str, type[Section]] = {
        "watch": WatchRule,
        "file_system": FileSystemRule,
        "purge": SitePurgeRule,
        "shared": SharedRule,
    }
    kind = rules.get(str(location[0])) or sections.get(str(location[0]))
    return kind.model_fields if kind else {}
