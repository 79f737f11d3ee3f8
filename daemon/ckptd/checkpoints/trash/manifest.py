"""The manifest of an entry: enough to restore it without a database. It is read as hostile input.

Version 2 also contains the hold, who decided it, and each file's change time. Entries of version 1 lack these; they can
be listed, restored, recovered and deleted as well.
"""

import json
import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ckptd.checkpoints.trash.contents import ContentItem
from ckptd.checkpoints.trash.outcome import RefusedError
from ckptd.core.fleet.prune_totals import FailureCause
from ckptd.core.model import RunKey

MANIFEST = "manifest.json"
UNFINISHED_MANIFEST = "manifest.json.new"
MOVED = "moved"  # its presence says that everything of the manifest was moved
_LIMIT = 64 * 2**20
_NUMBER_LIMIT = 2**64
_SIZE_LIMIT = 2**53  # 8 PiB: no checkpoint of one directory is as large, and a metric counts it exactly
_PATH_LIMIT = 4096
_TEXT_LIMIT = 200
_REASON_LIMIT = 500
_REASONS_LIMIT = 20
_YEARS = range(2000, 3000)
_LONGEST_HOLD = timedelta(days=36_500)
_VERSION = 2
_VERSIONS = (1, _VERSION)


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Who moved a checkpoint, its format and role, and its hold."""

    cluster: str = ""  # of its run
    policy: str = ""
    actor: str = ""  # a daemon by its host and process id, or "uid N" for a person
    lease_epoch: int = 0
    format: str = ""
    role: str = ""
    hold: timedelta | None = None  # at least, from its move on; None: an entry of version 1, which does not say
    no_room_hold: timedelta | None = None  # at least, while its file system has no room; None: that changes nothing


@dataclass(frozen=True, slots=True)
class MovedItem:
    """One file or directory moved by one rename, under its number: its earlier name and its content."""

    name: str  # relative to the run's directory
    things: tuple[ContentItem, ...]

    @property
    def size_bytes(self) -> int:
        return sum(thing.size_bytes for thing in self.things)

    def as_moved(self, changed_ns: int = 0) -> tuple[ContentItem, ...]:
        """Return its facts in the trash, where the rename has changed the change time of the item itself."""
        return (self.things[0]._replace(changed_ns=changed_ns), *self.things[1:]) if self.things else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """One checkpoint in the trash."""

    act_id: str
    directory: str  # the name of the run's directory beside the trash; "" where the trash is inside of it
    path: str  # of the checkpoint, as it was known
    uid: int
    moved_at: datetime
    reasons: tuple[str, ...]
    items: tuple[MovedItem, ...]
    run: RunKey | None = None
    origin: Origin = Origin()

    @property
    def size_bytes(self) -> int:
        return sum(item.size_bytes for item in self.items)

    def to_json(self) -> bytes:
        """Return the content of the manifest's file.

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
            "run": self.run._asdict() if self.run else None,
            **encode_origin(self.origin),
            "items": [{"name": item.name, "things": item.things} for item in self.items],
        }
        data = json.dumps(document, indent=1).encode()
        if len(data) > _LIMIT:
            raise RefusedError("it has more files than a manifest has room for")
        return data


def find_release(moved_at: datetime, origin: Origin, *, is_short_of_space: bool) -> datetime:
    """Return the end of the hold that was set when the checkpoint was moved."""
    hold = origin.hold or timedelta(0)
    if is_short_of_space and origin.no_room_hold is not None:
        hold = min(hold, origin.no_room_hold)
    return moved_at + hold


def encode_origin(origin: Origin) -> dict[str, Any]:
    """Encode an origin as JSON types."""
    return {
        "cluster": origin.cluster[:_TEXT_LIMIT],
        "policy": origin.policy[:_TEXT_LIMIT],
        "actor": origin.actor[:_TEXT_LIMIT],
        "lease_epoch": origin.lease_epoch,
        "format": origin.format[:_TEXT_LIMIT],
        "role": origin.role[:_TEXT_LIMIT],
        "hold": _seconds(origin.hold),
        "no_room_hold": _seconds(origin.no_room_hold),
    }


def decode_origin(data: dict[str, Any]) -> Origin:
    """Decode an origin.

    Raises:
        KeyError, TypeError, ValueError: the data is not of `encode_origin`'s form.

    """
    return Origin(
        **{name: _read_text(data[name]) for name in ("cluster", "policy", "actor", "format", "role")},
        lease_epoch=_whole(data["lease_epoch"], 0, _NUMBER_LIMIT),
        hold=_duration(data["hold"]),
        no_room_hold=_duration(data["no_room_hold"]),
    )


def read_manifest(entry: int) -> Manifest:
    """Read the manifest of an open entry of the trash.

    Raises:
        RefusedError: it is not a manifest, or contains something that ckptd would not have written.
        OSError: it cannot be read.

    """
    try:
        return _parse(_read(MANIFEST, entry))
    except MemoryError as error:
        raise RefusedError("its manifest needs more memory than one of ckptd", FailureCause.UNREADABLE) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RefusedError(
            f"its manifest is not one of ckptd: {type(error).__name__}: {error}", FailureCause.UNREADABLE
        ) from error


def encode_changes(changed_ns: list[int]) -> bytes:
    """Return the mark of a completed move: the change time of each item after it, 0 if unknown."""
    return json.dumps({"version": _VERSION, "changed_ns": changed_ns}).encode()


def read_changes(entry: int, manifest: Manifest) -> tuple[int, ...]:
    """Return the change time of each item after its move, from the mark of the completed move; 0 if unknown."""
    unknown = (0,) * len(manifest.items)
    try:
        document = json.loads(_read(MOVED, entry), parse_constant=_refuse_constant)
        found = tuple(_whole(number, 0, _NUMBER_LIMIT) for number in document["changed_ns"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, MemoryError):
        return unknown  # version 1 leaves it empty, and a kill in the moment of its writing too
    return found if len(found) == len(unknown) else unknown


def _read(name: str, entry: int) -> bytes:
    found = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=entry)
    with os.fdopen(found, "rb") as file:
        return file.read(_LIMIT + 1)


def _parse(data: bytes) -> Manifest:
    if len(data) > _LIMIT:
        raise ValueError("it is too large")
    document = json.loads(data, parse_constant=_refuse_constant)
    version = document["version"]
    if version not in _VERSIONS:
        raise ValueError(f"version {version!r}")
    manifest = Manifest(
        act_id=str(document["act_id"]),
        directory=str(document["directory"]),
        path=str(document["path"])[:_PATH_LIMIT],
        uid=_whole(document["uid"], 0, 2**32),
        moved_at=datetime.fromisoformat(document["moved_at"]),
        reasons=tuple(str(reason)[:_REASON_LIMIT] for reason in document["reasons"][:_REASONS_LIMIT]),
        items=tuple(
            MovedItem(_relative(item["name"]), tuple(_parse_thing(thing, version) for thing in item["things"]))
            for item in document["items"]
        ),
        run=_parse_run(document["run"]) if version == _VERSION and document["run"] else None,
        origin=decode_origin(document) if version == _VERSION else Origin(),
    )
    if {"/", "\0"} & set(manifest.directory) or manifest.directory in {".", ".."}:
        raise ValueError(f"directory {manifest.directory!r}")
    if manifest.moved_at.tzinfo is None or manifest.moved_at.year not in _YEARS:
        raise ValueError(f"moved_at {document['moved_at']!r}")
    if manifest.size_bytes >= _SIZE_LIMIT:
        raise ValueError("its sizes add up to more than a file system holds")
    return manifest


def _parse_run(fields: dict[str, Any]) -> RunKey:
    return RunKey(
        _read_text(fields["cluster"]), _whole(fields["uid"], 0, 2**32), str(fields["directory"])[:_PATH_LIMIT]
    )


def _parse_thing(fields: list[str | int], version: int) -> ContentItem:
    path, kind, *numbers = fields
    if kind not in {"file", "directory", "link"}:
        raise ValueError(f"kind {kind!r}")
    values = (_whole(number, -_NUMBER_LIMIT, _NUMBER_LIMIT) for number in numbers)
    if version == 1:
        (device, inode, size_bytes, modified_ns), changed_ns = values, 0
    else:
        device, inode, size_bytes, modified_ns, changed_ns = values
    if not 0 <= size_bytes < _SIZE_LIMIT:
        raise ValueError(f"size {size_bytes}")
    return ContentItem(
        _relative(path) if path != "" else "", str(kind), device, inode, size_bytes, modified_ns, changed_ns
    )


def _whole(number: object, low: int, high: int) -> int:
    if not isinstance(number, int) or not low <= number < high:
        raise ValueError(f"number {str(number)[:40]!r}")
    return number


def _read_text(text: object) -> str:
    if not isinstance(text, str) or len(text) > _TEXT_LIMIT:
        raise ValueError(f"text {str(text)[:40]!r}")
    return text


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else min(duration, _LONGEST_HOLD).total_seconds()


def _duration(seconds: object) -> timedelta | None:
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or not 0 <= seconds <= _LONGEST_HOLD.total_seconds():
        raise ValueError(f"duration {str(seconds)[:40]!r}")
    return timedelta(seconds=seconds)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"number {name}")


def _relative(path: object) -> str:
    if not isinstance(path, str) or any(part in {"", ".", ".."} for part in path.split("/")) or "\0" in path:
        raise ValueError(f"path {path!r}")
    return path
