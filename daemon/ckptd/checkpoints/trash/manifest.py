"""The note beside what was moved: enough to put it back with no database, and read as if an enemy had written it."""

import json
import os
from dataclasses import dataclass
from datetime import datetime

from ckptd.checkpoints.trash.contents import Thing
from ckptd.checkpoints.trash.outcome import RefusedError
from ckptd.core.pruned import Cause

MANIFEST = "manifest.json"
UNFINISHED_MANIFEST = "manifest.json.new"
MOVED = "moved"  # its presence says that everything of the manifest was moved
_LIMIT = 64 * 2**20
_NUMBER_LIMIT = 2**64
_SIZE_LIMIT = 2**53  # 8 PiB: no checkpoint of one directory is as large, and a metric counts it exactly
_TEXT_LIMIT = 4096
_REASON_LIMIT = 500
_REASONS_LIMIT = 20
_YEARS = range(2000, 3000)
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that was moved by one rename, under its number: its name before, and all that it held."""

    name: str  # relative to the run's directory
    things: tuple[Thing, ...]

    @property
    def size_bytes(self) -> int:
        return sum(thing.size_bytes for thing in self.things)


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """One checkpoint in the trash."""

    act_id: str
    directory: str  # the name of the run's directory beside the trash; "" where the trash is inside of it
    path: str  # of the checkpoint, as it was known
    uid: int
    moved_at: datetime
    reasons: tuple[str, ...]
    items: tuple[Item, ...]

    @property
    def size_bytes(self) -> int:
        return sum(item.size_bytes for item in self.items)

    def to_json(self) -> bytes:
        """Return the manifest's file.

        Raises:
            RefusedError: it would be too large to be read again.

        """
        document = {
            "version": _VERSION,
            "act_id": self.act_id,
            "directory": self.directory,
            "path": self.path,
            "uid": self.uid,
            "moved_at": self.moved_at.isoformat(),
            "reasons": self.reasons,
            "items": [{"name": item.name, "things": item.things} for item in self.items],
        }
        data = json.dumps(document, indent=1).encode()
        if len(data) > _LIMIT:
            raise RefusedError("it has more files than a manifest has room for")
        return data


def read_manifest(entry: int) -> Manifest:
    """Read the manifest of an open entry of the trash.

    Raises:
        RefusedError: it is none, or says something that ckptd would not have written.
        OSError: it cannot be read.

    """
    found = os.open(MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=entry)
    with os.fdopen(found, "rb") as file:
        data = file.read(_LIMIT + 1)
    try:
        return _parse(data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RefusedError(
            f"its manifest is not one of ckptd: {type(error).__name__}: {error}", Cause.UNREADABLE
        ) from error


def _parse(data: bytes) -> Manifest:
    if len(data) > _LIMIT:
        raise ValueError("it is too large")
    document = json.loads(data, parse_constant=_refuse_constant)
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']!r}")
    manifest = Manifest(
        act_id=str(document["act_id"]),
        directory=str(document["directory"]),
        path=str(document["path"])[:_TEXT_LIMIT],
        uid=_whole(document["uid"], 0, 2**32),
        moved_at=datetime.fromisoformat(document["moved_at"]),
        reasons=tuple(str(reason)[:_REASON_LIMIT] for reason in document["reasons"][:_REASONS_LIMIT]),
        items=tuple(
            Item(_relative(item["name"]), tuple(_parse_thing(thing) for thing in item["things"]))
            for item in document["items"]
        ),
    )
    if {"/", "\0"} & set(manifest.directory) or manifest.directory in {".", ".."}:
        raise ValueError(f"directory {manifest.directory!r}")
    if manifest.moved_at.tzinfo is None or manifest.moved_at.year not in _YEARS:
        raise ValueError(f"moved_at {document['moved_at']!r}")
    if manifest.size_bytes >= _SIZE_LIMIT:
        raise ValueError("its sizes add up to more than a file system holds")
    return manifest


def _parse_thing(fields: list[str | int]) -> Thing:
    path, kind, *numbers = fields
    if kind not in {"file", "directory", "link"}:
        raise ValueError(f"kind {kind!r}")
    device, inode, size_bytes, modified_ns = (_whole(number, -_NUMBER_LIMIT, _NUMBER_LIMIT) for number in numbers)
    if not 0 <= size_bytes < _SIZE_LIMIT:
        raise ValueError(f"size {size_bytes}")
    return Thing(_relative(path) if path != "" else "", str(kind), device, inode, size_bytes, modified_ns)


def _whole(number: object, low: int, high: int) -> int:
    if not isinstance(number, int) or not low <= number < high:
        raise ValueError(f"number {str(number)[:40]!r}")
    return number


def _refuse_constant(name: str) -> object:
    raise ValueError(f"number {name}")


def _relative(path: object) -> str:
    if not isinstance(path, str) or any(part in {"", ".", ".."} for part in path.split("/")) or "\0" in path:
        raise ValueError(f"path {path!r}")
    return path
