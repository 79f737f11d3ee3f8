"""Reads the configuration's file and environment into plain tables, without checking them."""

import codecs
import os
import re
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
    """The settings as written, and which of them come from which variable; `path` is None if no file was read."""

    path: Path | None
    data: dict[str, Any]
    variables: dict[tuple[str, str], str]  # by section and key


def find_file(path: Path | None) -> Path | None:
    """Return the file to read: the given one, else the default one; None if there is none.

    A link to nothing, or a directory that may not be entered, counts as a file: reading it says what is wrong.
    """
    if path is not None:
        return path
    try:
        os.lstat(DEFAULT_PATH)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        pass
    return DEFAULT_PATH


def read_tables(path: Path | None, environment: Mapping[str, str]) -> Tables:
    """Read the file, then override it with `CKPTD_SECTION__KEY` from the environment.

    Without a path, read the default file if it exists.

    Raises:
        ConfigError: the file cannot be read, or is not TOML.

    """
    chosen = find_file(path)
    data: dict[str, Any] = {}
    if chosen:
        try:
            with chosen.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
            if len(content) > MAX_BYTES:
                raise ConfigError(f"{chosen}: larger than {MAX_BYTES >> 20} MiB, so it is no configuration")
            text = content.removeprefix(codecs.BOM_UTF8).decode()  # Windows' editors put this mark at the start
            data = tomllib.loads(text)
        except OSError as error:
            raise ConfigError(f"{chosen}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise ConfigError(f"{chosen}: line {line} is not UTF-8; save the file in this encoding") from error
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{chosen}: {_describe_mistake(str(error), text)}") from error
    tables = overlay(data, environment)
    rename_former(tables.data, str(chosen or "the environment"))
    return tables._replace(path=chosen)


def _describe_mistake(said: str, text: str) -> str:
    """Say what a TOML file gives twice; other mistakes are described by the library."""
    found = re.fullmatch(r"Cannot (?:overwrite|declare) .* (\(at (?:line (\d+), column \d+|end of document)\))", said)
    lines = text.splitlines()
    line = lines[int(found[2]) - 1 if found[2] else -1].strip() if found else ""
    name = re.match(r"\[.*\]$|[\w.\"'-]+(?=\s*=)", line)
    return f"{name[0]} is given twice {found[1]}" if found and name else said


def overlay(data: dict[str, Any], environment: Mapping[str, str]) -> Tables:
    """Override settings with those in the environment, in place."""
    variables: dict[tuple[str, str], str] = {}
    for variable, value in environment.items():
        section, separator, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if not variable.startswith(ENVIRONMENT_PREFIX) or not separator:
            continue
        table = data.setdefault(section, {})
        if isinstance(table, dict):
            table[key] = _value(value)
            variables[section, key] = variable
    return Tables(None, data, variables)


def _value(text: str) -> object:
    """Parse a value as TOML if it is a list, otherwise keep it as text."""
    if text.startswith("["):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            return text
    return text
