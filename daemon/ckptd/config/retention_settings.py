"""Reads the settings that planning the retention of runs needs, without building the rest of the configuration.

As in `listing_settings`, whatever is unusual in these sections is left to `read_config`, which words the errors.
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from ckptd.config.listing_settings import UncertainSettingError, read_duration
from ckptd.config.raw_tables import read_tables
from ckptd.config.retention import RetentionSection
from ckptd.config.trash_settings import TrashSettings, list_trash_settings, pick_trash_settings

if TYPE_CHECKING:
    from ckptd.config.root import Config


class RetentionSettings(NamedTuple):
    """The settings that plans and the trash have in common, and those of plans. The defaults are the models'."""

    common: TrashSettings
    retention: RetentionSection
    scan_deadline: timedelta = timedelta(seconds=60)


def read_retention_settings(path: Path | None, environment: Mapping[str, str]) -> RetentionSettings:
    """Read these settings as `read_config` would.

    Raises:
        ConfigError: the file cannot be read, or one of these settings is wrong; the text lists every error in it.

    """
    try:
        return _pick(read_tables(path, environment).data)
    except (UncertainSettingError, ValidationError):
        from ckptd.config.reading import read_config  # noqa: PLC0415 - it builds the other models

        return list_retention_settings(read_config(path, environment))


def list_retention_settings(config: "Config") -> RetentionSettings:
    """Return these settings of the whole configuration."""
    return RetentionSettings(list_trash_settings(config), config.retention, config.scan.deadline)


def _pick(data: Mapping[str, Any]) -> RetentionSettings:
    common = pick_trash_settings(data)
    settings = RetentionSettings(common, RetentionSection.model_validate(data.get("retention", {})))
    scan = data.get("scan", {})
    return settings._replace(scan_deadline=read_duration(scan["deadline"])) if "deadline" in scan else settings
