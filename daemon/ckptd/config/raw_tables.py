"""Reads the configuration's file and environment into plain tables, without checking them."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ckptd.config.former_names import rename_former
from ckptd.errors import CkptdError

DEFAULT_PATH = Path("/etc/ckptd/config.toml")
ENVIRONMENT_PREFIX = "CKPTD_"
MAX_BYTES = 4 << 20  # of a file: a device may have no end


class ConfigError(CkptdError):
    """The configuration cannot be used; the text lists every error in it."""


class Tables(NamedTuple):
    """The settings as written; `path` is None if no file was read."""

    path: Path | None
    data: dict[str, Any]


def read_tables(path: Path | None, environment: Mapping[str, str]) -> Tables:
    """Read the file, then override it with `CKPTD_SECTION__KEY` from the environment.

    Without a path, read the default file if it exists.

    Raises:
        ConfigError: the file cannot be read, or is not TOML.

    """
    chosen = path or (DEFAULT_PATH if DEFAULT_PATH.exists() else None)
    data: dict[str, Any] = {}
    if chosen:
        try:
            with chosen.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
            if len(content) > MAX_BYTES:
                raise ConfigError(f"{chosen}: larger than {MAX_BYTES >> 20} MiB, so it is no configuration")
            data = tomllib.loads(content.decode())
        except OSError as error:
            raise ConfigError(f"{chosen}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{chosen}: {error}") from error
    _overlay(data, environment)
    rename_former(data, str(chosen or "the environment"))
    return Tables(chosen, data)


def _overlay(data: dict[str, Any], environment: Mapping[str, str]) -> None:
    for variable, value in environment.items():
        section, separator, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if not variable.startswith(ENVIRONMENT_PREFIX) or not separator:
            continue
        table = data.setdefault(section, {})
        if isinstance(table, dict):
            table[key] = _value(value)


def _value(text: str) -> object:
    """Parse a value as TOML if it is a list, otherwise keep it as text."""
    if text.startswith("["):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            return text
    return text
