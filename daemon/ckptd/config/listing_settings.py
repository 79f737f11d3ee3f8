"""Reads the few settings that `ckptd jobs`, `flags` and `status` need, without building the whole configuration.

Building it takes longer than the rest of such a command. If a section or a key of these sections is misspelled, or a
value has another type, `read_config` reads the file instead and words the error. Values in other sections are not
checked; `ckptd config check` does that.
"""

import os
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ckptd.config.raw_tables import read_tables
from ckptd.core.text.quantities import parse_duration

if TYPE_CHECKING:
    from ckptd.config.root import Config

# the models' settings (a test compares them); if a file sets any other, the whole configuration is read
SECTIONS = frozenset(
    {
        "actions", "agent", "apprise", "file_system", "health", "mail", "metrics", "node_scans", "purge", "retention",
        "scan", "service", "shared", "slurm", "store", "verify_jobs", "watch", "web",
    }
)  # fmt: skip
KEYS = {
    "actions": frozenset(
        {
            "hold", "max_per_cycle", "max_per_hour", "max_resubmits", "min_loss", "resubmit", "signal",
            "signal_margin", "summary",
        }
    ),
    "service": frozenset({"heartbeat_url", "log_level", "standby", "state_directory", "user"}),
    "slurm": frozenset(
        {
            "backfill", "backfill_after", "backfill_max_age", "cluster", "poll_interval", "read_batch_scripts",
            "replay_path", "rest_token_file", "rest_url", "source", "timeout",
        }
    ),
    "store": frozenset({"keep", "keep_checkpoints", "password_file", "upgrade", "url"}),
}  # fmt: skip
LONGEST = timedelta(days=36_500)


class ListingSettings(NamedTuple):
    """The address of the database, and the limits that `status` compares with. The defaults are the models'."""

    database_url: str
    password_file: Path | None
    poll_interval: timedelta = timedelta(seconds=60)
    max_per_hour: int = 200
    cluster: str | None = None


class UncertainSettingError(Exception):
    """A setting needs the complete check of `read_config`."""


def read_listing_settings(path: Path | None, environment: Mapping[str, str]) -> ListingSettings:
    """Read these settings as `read_config` would.

    Raises:
        ConfigError: the file cannot be read, or one of these settings is wrong; the text lists every error in it.

    """
    try:
        return pick_settings(read_tables(path, environment).data)
    except UncertainSettingError:
        from ckptd.config.reading import read_config  # noqa: PLC0415 - it builds the models

        return list_listing_settings(read_config(path, environment))


def list_listing_settings(config: "Config") -> ListingSettings:
    """Return these settings of the whole configuration."""
    return ListingSettings(
        config.database_url,
        config.store.password_file,
        config.slurm.poll_interval,
        config.actions.max_per_hour,
        config.slurm.cluster,
    )


def pick_settings(data: Mapping[str, Any]) -> ListingSettings:
    """Return the settings of listings from a file's tables.

    Raises:
        UncertainSettingError: only the whole configuration can tell.

    """
    tables = pick_tables(data, KEYS)
    state_directory = read_value(tables["service"], "state_directory", str)
    password_file = read_value(tables["store"], "password_file", str)
    url = read_value(tables["store"], "url", str)
    if url and find_url_mistake(url):
        raise UncertainSettingError
    settings = ListingSettings(
        url or default_url(choose_state_directory(Path(state_directory) if state_directory else None)),
        Path(password_file) if password_file else None,
        cluster=read_value(tables["slurm"], "cluster", str),
    )
    if "poll_interval" in tables["slurm"]:
        settings = settings._replace(poll_interval=read_duration(tables["slurm"]["poll_interval"]))
    limit = read_value(tables["actions"], "max_per_hour", int)
    if limit is not None:
        if limit < 0:
            raise UncertainSettingError
        settings = settings._replace(max_per_hour=limit)
    return settings


def pick_tables(data: Mapping[str, Any], known: Mapping[str, AbstractSet[str]]) -> dict[str, dict[str, Any]]:
    """Return the tables of these sections, which have only known keys.

    Raises:
        UncertainSettingError: a section or key is not known.

    """
    tables = {section: data.get(section, {}) for section in known}
    if not data.keys() <= SECTIONS:
        raise UncertainSettingError
    if not all(isinstance(table, dict) and table.keys() <= known[section] for section, table in tables.items()):
        raise UncertainSettingError
    return tables


def read_value(table: Mapping[str, Any], key: str, wanted: type[Any]) -> Any:
    """Return a value of exactly this type; None if it is absent."""
    value = table.get(key)
    if value is not None and (type(value) is not wanted or value == ""):
        raise UncertainSettingError
    return value


def read_duration(given: object) -> timedelta:
    """Return a duration as the models read it."""
    found = parse_duration(given)
    if not isinstance(found, timedelta) or not timedelta(0) < found <= LONGEST:
        raise UncertainSettingError
    return found


def choose_state_directory(configured: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of SQLite and the heartbeat: as configured, of systemd, or the user's own."""
    if configured:
        return configured
    if given := environment.get("STATE_DIRECTORY"):
        return Path(given.split(":")[0])
    if os.geteuid() == 0:
        return Path("/var/lib/ckptd")
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(base) / "ckptd"


def find_url_mistake(url: str) -> str | None:
    """Return why ckptd cannot use a database at this address, without its password; None where it can."""
    kind, separator, rest = url.partition("://")
    if re.fullmatch(r"sqlite(\+pysqlite)?|postgres(ql)?(\+psycopg)?", kind) is None or not separator:
        shown = f'"{kind}://..." is no database that ckptd can use' if separator else "this is no database URL"
        return f"{shown}; use sqlite:////PATH or postgresql://USER@HOST/DATABASE"
    if kind.startswith("sqlite"):
        is_absolute = rest.startswith("//")
        return None if is_absolute else "the path of a SQLite file must be absolute, as in sqlite:////srv/ckptd.sqlite3"
    port = _read_port(rest)
    if port is None or (port.isascii() and port.isdigit() and int(port) < 2**16):
        return None
    return "the part between the host's colon and the next slash is no port; use postgresql://USER@HOST:5432/DATABASE"


def _read_port(rest: str) -> str | None:
    """Return the port of an address without its scheme, as SQLAlchemy finds it; None where there is none."""
    found = re.match(r"([^:/]*(:[^@]*)?@)?(\[[^/?]+\]|[^/:?]+)?(:(?P<port>[^/?]*))?", rest)
    return found["port"] if found else None


def default_url(state_directory: Path) -> str:
    return f"sqlite:///{state_directory / 'ckptd.sqlite3'}"
