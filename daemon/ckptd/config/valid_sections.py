"""Reads a configuration that has errors: the valid sections as they are, the others with their defaults."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ckptd.config.raw_tables import ConfigError, overlay, read_tables
from ckptd.config.reading import read_config, validate
from ckptd.config.root import Config


def read_valid_sections(path: Path | None, environment: Mapping[str, str]) -> tuple[Config, tuple[str, ...]]:
    """Return the configuration, and all errors of which it is without."""
    try:
        return read_config(path, environment), ()
    except ConfigError as error:
        errors = tuple(str(error).splitlines())
    try:
        chosen, data, variables = read_tables(path, environment)
    except ConfigError:  # nothing of the file can be read: the environment alone still counts
        chosen, data, variables = overlay({}, environment)
    valid: dict[str, Any] = {}
    for section, table in data.items():
        try:
            validate(chosen, {**valid, section: table}, variables)
        except ConfigError:
            continue
        valid[section] = table
    return validate(chosen, valid), errors
