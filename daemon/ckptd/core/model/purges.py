"""When a site deletes users' files by itself: its purge rules, and workspaces that expire.

hpc-workspace (github.com/holgerBerger/hpc-workspace, admin-guide.md and src/wsdb.cpp; version 2 keeps the format,
src/dbv1.cpp) gives each user directories with an expiration date. Its `ws_expirer` moves an expired one out of reach
and deletes it some days later; `ws_restore` brings it back until then.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ckptd.core.model.unknown import Unknown


class FileClock(StrEnum):
    """The time of a file from which a site counts its age."""

    ATIME = "atime"  # last read
    MTIME = "mtime"  # last modified
    CTIME = "ctime"  # last change of the file or its inode


@dataclass(frozen=True, kw_only=True, slots=True)
class PurgeRule:
    """The site deletes files below `path`, which may be a shell pattern, once they have this age."""

    path: str
    age: timedelta
    by: FileClock


@dataclass(frozen=True, kw_only=True, slots=True)
class Workspace:
    """One directory with an expiration date, as the site's database has it."""

    entry: str  # the name of its file in the database: USER-NAME
    directory: str
    filesystem: str | None  # the name for `ws_extend -F`; None: not known
    created_at: datetime | None  # only version 2 records it
    expires_at: datetime
    extension_count: int | None  # extensions that are left


@dataclass(frozen=True, kw_only=True, slots=True)
class SitePurge:
    """The site's purge rules for a run's directory; `workspace` is None if the directory is in no workspace."""

    rules: tuple[PurgeRule, ...] = ()
    workspace: Workspace | Unknown | None = None
