"""Reads the configuration into one frozen value; a wrong file is refused whole, with every error at once."""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails

from ckptd.core.health import RULES, Rule
from ckptd.errors import CkptdError

DEFAULT_PATH = Path("/etc/ckptd/config.toml")
ENVIRONMENT_PREFIX = "CKPTD_"

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")


class ConfigError(CkptdError):
    """The configuration cannot be used; the text lists every error in it."""


def parse_duration(value: object) -> object:
    """Read `90`, `"90s"`, `"1h30m"` or `"7d"`; whatever else is left for the type to refuse."""
    if isinstance(value, str) and _DURATION.fullmatch(value):
        parts = re.findall(r"(\d+(?:\.\d+)?)([smhdw])", value)
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
    return value


Duration = Annotated[timedelta, BeforeValidator(parse_duration), Field(gt=timedelta(0))]


class Section(BaseModel):
    """One table of the configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class SlurmSection(Section):
    source: Literal["auto", "pyslurm", "squeue", "replay"] = "auto"
    cluster: str | None = None  # None: slurm.conf's ClusterName
    poll_interval: Duration = timedelta(seconds=60)
    timeout: Duration = timedelta(seconds=30)
    replay_path: Path | None = None
    read_batch_scripts: bool = False

    @model_validator(mode="after")
    def _replay_needs_a_path(self) -> "SlurmSection":
        if self.source == "replay" and self.replay_path is None:
            raise ValueError('source = "replay" needs replay_path')
        return self


class StoreSection(Section):
    url: str | None = None  # None: SQLite in the state directory
    password_file: Path | None = None
    upgrade: Literal["on-start", "refuse"] = "on-start"


class ScanSection(Section):
    interval: Duration = timedelta(minutes=5)
    settle_time: Duration = timedelta(seconds=60)
    deadline: Duration = timedelta(seconds=60)  # for one directory
    max_depth: int = Field(default=6, ge=1, le=32)
    max_entries: int = Field(default=200_000, ge=1)
    discovery_depth: int = Field(default=3, ge=0, le=8)
    discovery_entries: int = Field(default=20_000, ge=1)
    allowed_roots: tuple[PurePosixPath, ...] = (PurePosixPath("/"),)
    inotify: bool = True


class WatchRule(Section):
    """Where the checkpoints of the jobs that match are: the first rule whose directory exists wins."""

    directory: str
    partition: str = "*"
    account: str = "*"
    user: str = "*"
    qos: str = "*"
    job_name: str = "*"


class HealthSection(Section):
    min_job_duration: Duration = timedelta(minutes=10)  # jobs with a shorter limit are not judged
    rules: dict[str, Any] = Field(default_factory=dict)


class WebSection(Section):
    listen: str = "127.0.0.1:9478"  # "" turns it off


class ServiceSection(Section):
    user: str | None = None  # None: stay who started it
    state_directory: Path | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class Config(Section):
    slurm: SlurmSection = SlurmSection()
    store: StoreSection = StoreSection()
    scan: ScanSection = ScanSection()
    watch: tuple[WatchRule, ...] = ()
    health: HealthSection = HealthSection()
    web: WebSection = WebSection()
    service: ServiceSection = ServiceSection()

    @model_validator(mode="after")
    def _rules_are_known(self) -> "Config":
        build_rules(self.health)
        return self

    @property
    def state_directory(self) -> Path:
        """Where SQLite and the heartbeat live: as configured, by systemd, or the user's own."""
        if self.service.state_directory:
            return self.service.state_directory
        if given := os.environ.get("STATE_DIRECTORY"):
            return Path(given.split(":")[0])
        if os.geteuid() == 0:
            return Path("/var/lib/ckptd")
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
        return Path(base) / "ckptd"

    @property
    def database_url(self) -> str:
        return self.store.url or f"sqlite:///{self.state_directory / 'ckptd.sqlite3'}"


def build_rules(section: HealthSection) -> tuple[Rule, ...]:
    """Build the enabled health rules with the site's thresholds.

    Raises:
        ValueError: a rule or threshold that does not exist, or a value of the wrong type.

    """
    rules: list[Rule] = []
    unknown = set(section.rules) - set(RULES)
    if unknown:
        name = min(unknown)
        raise ValueError(f"health.rules.{name}: there is no such rule{_nearest(name, RULES)}")
    for name, kind in RULES.items():
        given = dict(section.rules.get(name, {}))
        if not given.pop("enabled", True):
            continue
        known = kind.__dataclass_fields__
        for key in given:
            if key not in known:
                raise ValueError(f"health.rules.{name}.{key}: there is no such threshold{_nearest(key, known)}")
        values = {key: parse_duration(value) for key, value in given.items()}
        try:
            rules.append(TypeAdapter(kind).validate_python(values))
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"health.rules.{name}.{first['loc'][0]}: {first['msg']}") from None
    return tuple(rules)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a configuration came from, for its errors."""

    path: Path | None

    def __str__(self) -> str:
        return str(self.path) if self.path else "the environment"


def read_config(path: Path | None, environment: Mapping[str, str]) -> Config:
    """Read the file, then lay the environment's `CKPTD_SECTION__KEY` settings over it.

    With no path the default file is read where there is one; without it the defaults hold.

    Raises:
        ConfigError: the file cannot be read or has errors; the text lists them all.

    """
    chosen = path or (DEFAULT_PATH if DEFAULT_PATH.exists() else None)
    data: dict[str, Any] = {}
    if chosen:
        try:
            data = tomllib.loads(chosen.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{chosen}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{chosen}: {error}") from error
    _overlay(data, environment)
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        lines = [f"{_Source(chosen)}: {_describe(problem)}" for problem in error.errors()]
        raise ConfigError("\n".join(lines)) from error


def _overlay(data: dict[str, Any], environment: Mapping[str, str]) -> None:
    for variable, value in environment.items():
        section, separator, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if not variable.startswith(ENVIRONMENT_PREFIX) or not separator:
            continue
        table = data.setdefault(section, {})
        if isinstance(table, dict):
            table[key] = _value(value)


def _value(text: str) -> object:
    """Read a value as TOML where it is a TOML list, else as the text that it is."""
    if text.startswith("["):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            return text
    return text


def _describe(problem: ErrorDetails) -> str:
    location = problem["loc"]
    key = ".".join(str(part) for part in location)
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        return f"{key}: there is no such setting{_nearest(str(location[-1]), _known_keys(location[:-1]))}"
    return f"{key}: {message}" if key else message


def _known_keys(location: tuple[Any, ...]) -> Mapping[str, object]:
    sections: dict[str, type[Section]] = {
        name: field.annotation
        for name, field in Config.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
    }
    if not location:
        return Config.model_fields
    kind = WatchRule if location[0] == "watch" else sections.get(str(location[0]))
    return kind.model_fields if kind else {}


def _nearest(name: str, known: Mapping[str, object]) -> str:
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {match[0]!r}?" if match else ""
