"""Reads the margins of the health rules for `ckptd show`, and builds the rules only where a site sets any."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ckptd.config.raw_tables import read_tables
from ckptd.core.forecast.limit_margins import FindMargins, use_default_margins


def read_margins(path: Path | None, environment: Mapping[str, str]) -> FindMargins:
    """Return what finds the margins of a run.

    Raises:
        ConfigError: the file cannot be read, or the health rules are wrong; the text lists every error in it.

    """
    if not _sets_margin(read_tables(path, environment).data.get("health")):
        return use_default_margins
    from ckptd.config.health import build_find_margins  # noqa: PLC0415 - building the rules takes half of the time
    from ckptd.config.reading import read_config  # noqa: PLC0415

    return build_find_margins(read_config(path, environment).health)


def _sets_margin(table: Any) -> bool:
    """Whether a table of the configuration has this key at any depth."""
    if isinstance(table, dict):
        return "margin" in table or any(_sets_margin(each) for each in table.values())
    return isinstance(table, list) and any(_sets_margin(each) for each in table)
