"""Finds the workspace that a directory is in, in the databases of hpc-workspace; in the agent's child, as the owner.

A database is a directory of the site with one YAML file for each workspace, readable by all users. The file and the
workspace's directory have the same name, USER-NAME (admin-guide.md of hpc-workspace), so that nothing is listed: the
components of a path are the names to try. `.ws_db_magic` holds the name of its file system. Expired and released
workspaces are below a subdirectory. The Python version of hpc-workspace wrote lines instead of YAML (src/wsdb.cpp,
`read_dbfile`): expiration, path, account, extensions.
"""

import errno
import os
import re
import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

import yaml

from ckptd.core.model import Workspace
from ckptd.errors import CkptdError

MAX_BYTES = 64 << 10  # of an entry: its comment is its user's
MAGIC = ".ws_db_magic"
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ABSENT = frozenset({errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO})


class WorkspaceError(CkptdError):
    """The database of workspaces cannot be read."""


def find_workspaces(item: dict[str, Any]) -> dict[str, Any]:
    """Return the encoded workspace that `item["directory"]` is in; null where no database has one.

    Raises:
        WorkspaceError: a database cannot be read, or an entry is malformed.

    """
    found = find_workspace(item["directory"], item["databases"])
    return {"workspace": None if found is None else encode_workspace(found)}


def find_workspace(directory: str, databases: Sequence[str]) -> Workspace | None:
    """Return the innermost workspace that contains a directory given by its real path.

    Raises:
        WorkspaceError: a database cannot be read, or an entry is malformed.

    """
    path = PurePosixPath(directory)
    places = [place for place in (path, *path.parents) if "-" in place.name]
    for database in databases:
        try:
            found = _find_in(database, places)
        except OSError as error:
            raise WorkspaceError(f"the workspace database {database!r} cannot be read: {error.strerror}") from error
        if found is not None:
            return found
    return None


def _find_in(database: str, places: Sequence[PurePosixPath]) -> Workspace | None:
    opened = os.open(database, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # also where there is no name to try
    try:
        for place in places:
            text = _read(opened, place.name)
            if text is None:
                continue
            entry = _parse(text, os.path.join(database, place.name))
            if os.path.realpath(str(entry["workspace"])) == str(place):
                return _workspace(entry, place, _read(opened, MAGIC))
    finally:
        os.close(opened)
    return None


def encode_workspace(workspace: Workspace) -> dict[str, Any]:
    """Encode a workspace as JSON types."""
    return {
        "entry": workspace.entry,
        "directory": workspace.directory,
        "filesystem": workspace.filesystem,
        "created_at": None if workspace.created_at is None else workspace.created_at.timestamp(),
        "expires_at": workspace.expires_at.timestamp(),
        "extension_count": workspace.extension_count,
    }


def decode_workspace(data: dict[str, Any]) -> Workspace | None:
    """Decode the answer of `find_workspaces`.

    Raises:
        ValueError, KeyError, TypeError, OverflowError: it is malformed.

    """
    said = data["workspace"]
    if said is None:
        return None
    return Workspace(
        entry=str(said["entry"]),
        directory=str(said["directory"]),
        filesystem=None if said["filesystem"] is None else str(said["filesystem"]),
        created_at=None if said["created_at"] is None else datetime.fromtimestamp(said["created_at"], UTC),
        expires_at=datetime.fromtimestamp(said["expires_at"], UTC),
        extension_count=None if said["extension_count"] is None else int(said["extension_count"]),
    )


def _read(database: int, name: str) -> str | None:
    """Return the text of one regular file; None where there is none of this name."""
    try:
        file = os.open(name, _FLAGS, dir_fd=database)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        return os.read(file, MAX_BYTES).decode("utf-8", "replace")
    finally:
        os.close(file)


def _parse(text: str, path: str) -> dict[str, Any]:
    """Return an entry with at least its `workspace` and `expiration`.

    Raises:
        WorkspaceError: it is malformed, or was read while it was written.

    """
    try:
        entry = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        entry = None
    if isinstance(entry, str):
        entry = _parse_lines(text)
    if isinstance(entry, dict) and entry.get("workspace") and _whole(entry.get("expiration")) is not None:
        return entry
    raise WorkspaceError(f"the workspace entry {path!r} is malformed")


def _parse_lines(text: str) -> dict[str, Any]:
    expiration, workspace, *others = [*text.splitlines(), "", ""]
    said = dict(line.partition(":")[::2] for line in others if ":" in line)
    return {"workspace": workspace, "expiration": expiration, "extensions": said.get("extensions")}


def _workspace(entry: dict[str, Any], place: PurePosixPath, magic: str | None) -> Workspace:
    created, expires = _whole(entry.get("creation")), _whole(entry["expiration"])
    assert expires is not None
    name = (magic or "").partition("\n")[0].strip()
    return Workspace(
        entry=place.name,
        directory=str(place),
        filesystem=name if re.fullmatch(r"[\w.-]{1,64}", name, re.ASCII) else None,
        created_at=datetime.fromtimestamp(created, UTC) if created else None,
        expires_at=datetime.fromtimestamp(expires, UTC),
        extension_count=_whole(entry.get("extensions")),
    )


def _whole(value: object) -> int | None:
    """Return seconds since the epoch, or a count; None where there is no sensible one."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, str))
        or not re.fullmatch(r"-?\d{1,11}", str(value).strip())
    ):
        return None
    return int(value)
