"""Reads the few settings that a command about the trash and its agent need, without building the whole configuration.

As in `listing_settings`, whatever is unusual in these sections is left to `read_config`, which words the errors.
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from ckptd.config.listing_settings import (
    KEYS,
    ListingSettings,
    UncertainSettingError,
    list_listing_settings,
    pick_settings,
    pick_tables,
    read_duration,
    read_value,
)
from ckptd.config.raw_tables import read_tables

if TYPE_CHECKING:
    from ckptd.config.root import Config

# the models' settings (a test compares them); if a file sets any other, the whole configuration is read
TRASH_KEYS = {
    "agent": frozenset({"deny_groups", "deny_users", "max_requests_per_minute", "uid_min"}),
    "retention": frozenset(
        {
            "bounds", "caps", "guards", "hold", "interval", "min_age", "mode", "no_room_hold", "policy", "verify",
            "verify_age", "verify_deadline",
        }
    ),
    "scan": frozenset(
        {
            "allowed_roots", "deadline", "discovery_depth", "discovery_entries", "inotify", "interval", "max_depth",
            "max_entries", "quota_command", "variables", "workspace_databases", "write_grace",
        }
    ),
    "slurm": KEYS["slurm"],
}  # fmt: skip


class TrashSettings(NamedTuple):
    """Where the database is, and what limits the agent that reads the trash. The defaults are the models'."""

    listing: ListingSettings
    hold: timedelta = timedelta(days=7)
    allowed_roots: tuple[PurePosixPath, ...] = (PurePosixPath("/"),)
    uid_min: int | None = None
    deny_users: tuple[str, ...] = ("nobody", "munge", "slurm", "slurmrestd", "postgres", "mysql")
    deny_groups: tuple[str, ...] = ("root", "disk", "shadow")


def read_trash_settings(path: Path | None, environment: Mapping[str, str]) -> TrashSettings:
    """Read these settings as `read_config` would.

    Raises:
        ConfigError: the file cannot be read, or one of these settings is wrong; the text lists every error in it.

    """
    try:
        return pick_trash_settings(read_tables(path, environment).data)
    except UncertainSettingError:
        from ckptd.config.reading import read_config  # noqa: PLC0415 - it builds the models

        return list_trash_settings(read_config(path, environment))


def list_trash_settings(config: "Config") -> TrashSettings:
    """Return these settings of the whole configuration."""
    return TrashSettings(
        list_listing_settings(config),
        config.retention.hold,
        config.scan.allowed_roots,
        config.agent.uid_min,
        config.agent.deny_users,
        config.agent.deny_groups,
    )


def pick_trash_settings(data: Mapping[str, Any]) -> TrashSettings:
    """Return these settings from a file's tables.

    Raises:
        UncertainSettingError: only the whole configuration can tell.

    """
    tables = pick_tables(data, TRASH_KEYS)
    settings = TrashSettings(pick_settings(data))
    if "hold" in tables["retention"]:
        settings = settings._replace(hold=read_duration(tables["retention"]["hold"]))
    if "allowed_roots" in tables["scan"]:
        roots = tuple(map(PurePosixPath, _read_texts(tables["scan"]["allowed_roots"])))
        settings = settings._replace(allowed_roots=roots)
    uid_min = read_value(tables["agent"], "uid_min", int)
    if uid_min is not None:
        if uid_min < 1:
            raise UncertainSettingError
        settings = settings._replace(uid_min=uid_min)
    if "deny_users" in tables["agent"]:
        settings = settings._replace(deny_users=_read_texts(tables["agent"]["deny_users"]))
    if "deny_groups" in tables["agent"]:
        settings = settings._replace(deny_groups=_read_texts(tables["agent"]["deny_groups"]))
    return settings


def _read_texts(given: object) -> tuple[str, ...]:
    """Return a list of texts."""
    if not isinstance(given, list) or not all(type(each) is str for each in given):
        raise UncertainSettingError
    return tuple(given)
