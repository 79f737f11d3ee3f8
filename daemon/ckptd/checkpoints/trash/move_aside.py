"""Moves a checkpoint to the trash, and puts it back.

A file is moved by a rename, never copied. Putting it back never replaces an existing file.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import PurePosixPath

from ckptd.checkpoints.scanning.tree import TRASH
from ckptd.checkpoints.trash import contents
from ckptd.checkpoints.trash.contents import ContentItem, MoveRequirements, OpenFiles
from ckptd.checkpoints.trash.descriptors import FileOperations, Step, closing, exists, open_below, read_mount
from ckptd.checkpoints.trash.manifest import (
    MANIFEST,
    MOVED,
    UNFINISHED_MANIFEST,
    Manifest,
    MovedItem,
    Origin,
    encode_changes,
)
from ckptd.checkpoints.trash.outcome import RefusedError, TrashOutcome, TrashResult, explain, fail
from ckptd.checkpoints.trash.trash_location import check_act_id, check_actor, check_changeable, create_place
from ckptd.core.fleet.prune_totals import FailureCause
from ckptd.core.model import FileIdentity, RunKey


@dataclass(frozen=True, kw_only=True, slots=True)
class MoveRequest:
    """One checkpoint to move to the trash, as it was when the plan was made.

    `files` are all its member files, relative to the parent of `path` and paired with `identities`. With
    `is_directory` the path is a directory that holds nothing else and is moved by one rename; otherwise each file is
    moved by its own. `markers` are names, relative to `directory`, of files shared with other checkpoints: they are
    never moved.
    """

    act_id: str  # letters, digits, '-' and '_'; becomes its name in the trash
    directory: PurePosixPath
    path: PurePosixPath
    files: tuple[str, ...]
    identities: tuple[FileIdentity, ...]
    is_directory: bool
    uid: int
    reasons: tuple[str, ...]
    allowed_roots: tuple[PurePosixPath, ...] = ()  # of whoever carries it out; nothing outside is moved
    markers: tuple[str, ...] = ()
    origin: Origin = field(default_factory=Origin)


@dataclass(frozen=True, slots=True)
class OpenEntry:
    """One entry of the trash and the run's directory that it came from, both as open descriptors."""

    name: str
    trash: int
    itself: int
    run: int
    hands: FileOperations


def move_aside(
    request: MoveRequest, *, now: datetime, open_files: OpenFiles = frozenset(), step: Step | None = None
) -> TrashOutcome:
    """Move one checkpoint into the trash of its directory, completely or not at all; return the outcome.

    `open_files` is the current result of `list_open_files`; none of these files is moved.
    """
    try:
        return _move(request, now, open_files, FileOperations(step))
    except (OSError, RefusedError) as error:
        return fail(error, request.act_id, str(request.path))


def _move(request: MoveRequest, now: datetime, open_files: OpenFiles, hands: FileOperations) -> TrashOutcome:
    check_actor(request.uid)
    check_act_id(request.act_id)
    names = _plan_names(request)
    with create_place(request.directory, request.uid, hands, request.allowed_roots) as (place, run):
        rules = MoveRequirements(request.uid, os.fstat(run).st_dev, read_mount(run), open_files)
        manifest = Manifest(
            act_id=request.act_id,
            directory=place.directory,
            path=str(request.path),
            uid=request.uid,
            moved_at=now,
            reasons=request.reasons,
            items=tuple(_examine_planned(names, run, request, rules)),
            run=RunKey(request.origin.cluster, request.uid, str(request.directory)),
            origin=request.origin,
        )
        hands.make_directory(request.act_id, place.trash)
        with closing(open_below(place.trash, request.act_id)) as descriptor:
            entry = OpenEntry(request.act_id, place.trash, descriptor, run, hands)
            try:
                write_manifest(manifest, entry)
                hands.sync(place.trash)
                move_items(manifest, entry, rules)
            except (OSError, RefusedError) as error:
                return _undo(error, manifest, entry)
    return _moved(manifest)


def _undo(error: OSError | RefusedError, manifest: Manifest, entry: OpenEntry) -> TrashOutcome:
    left = put_back(manifest, entry)
    if left:
        finish(manifest, entry)
        return _moved(manifest, f"{explain(error)}; what could not be put back is in the trash: {left[0]}")
    drop_entry(entry)
    return fail(error, manifest.act_id, manifest.path)


def _moved(manifest: Manifest, reason: str | None = None) -> TrashOutcome:
    return TrashOutcome(
        act_id=manifest.act_id,
        result=TrashResult.MOVED,
        path=manifest.path,
        reason=reason,
        size_bytes=manifest.size_bytes,
    )


def _plan_names(request: MoveRequest) -> tuple[str, ...]:
    """Return the paths to rename, relative to the run's directory: a whole directory, or each file of a set."""
    if not any(request.directory.is_relative_to(root) for root in request.allowed_roots):
        raise RefusedError(f"{request.directory} is outside of the allowed roots", FailureCause.OUTSIDE)
    if ".." in request.path.parts or not request.path.is_relative_to(request.directory):
        raise RefusedError(f"{request.path} is not inside {request.directory}", FailureCause.OUTSIDE)
    path = request.path.relative_to(request.directory)
    if not path.parts or not request.files or len(request.files) != len(request.identities):
        raise RefusedError("it is not known which files belong to it")
    parts = {part for file in request.files for part in file.split("/")}
    if parts & {"", ".", ".."}:
        raise RefusedError("one of its files has a name that climbs", FailureCause.OUTSIDE)
    if TRASH in parts.union(request.path.parts):
        raise RefusedError("it is in the trash already", FailureCause.OUTSIDE)
    if request.is_directory:
        if not all(file.startswith(f"{path.name}/") for file in request.files):
            raise RefusedError(f"not all of its files are in {request.path}", FailureCause.OUTSIDE)
        names: tuple[str, ...] = (path.as_posix(),)
    else:
        found = ((path.parent / file).as_posix() for file in request.files)
        names = tuple(sorted(found, key=lambda name: name.rpartition("/")[0]))  # each directory is opened once
    if shared := set(_planned_names(request)) & set(request.markers):
        raise RefusedError(f"{min(shared)} is shared with other checkpoints", FailureCause.OUTSIDE)
    return names


def _planned_names(request: MoveRequest) -> list[str]:
    """Return the planned files relative to the run's directory, in the order of their identities."""
    parent = request.path.relative_to(request.directory).parent
    return [(parent / file).as_posix() for file in request.files]


def _examine_planned(
    names: tuple[str, ...], run: int, request: MoveRequest, rules: MoveRequirements
) -> Iterator[MovedItem]:
    """Check everything that will be renamed, and refuse it unless it is exactly what was planned."""
    planned = dict(zip(_planned_names(request), request.identities, strict=True))
    newest = max(identity.modified_ns for identity in request.identities)
    missing = set(planned)
    for parent, group in groupby(names, key=lambda name: name.rpartition("/")[0]):
        with closing(open_below(run, parent)) as at:
            check_changeable(at, rules.uid)
            for name in group:
                things = contents.examine(name.rpartition("/")[2], at, rules)
                for thing in things:
                    path = f"{name}/{thing.path}" if thing.path else name
                    _check_planned(thing, path, planned.get(path), newest)
                    missing.discard(path)
                yield MovedItem(name, things)
    if missing:
        raise RefusedError(f"{min(missing)!r} is gone", FailureCause.GONE)


def _check_planned(thing: ContentItem, path: str, identity: FileIdentity | None, newest: int) -> None:
    """Refuse a file that is not in the plan, was replaced, or has changed since the plan."""
    if thing.kind == "directory":
        return
    if identity is None:
        if thing.modified_ns > newest:
            raise RefusedError(f"{path!r} was added after the scan of the checkpoint", FailureCause.CHANGED)
        if thing.kind == "file":
            raise RefusedError(f"{path!r} is in its directory and no file of it", FailureCause.CHANGED)
        return
    found = (thing.device, thing.inode, thing.size_bytes, thing.modified_ns)
    if found != identity[:4] or identity.changed_ns not in {0, thing.changed_ns}:
        raise RefusedError(f"{path!r} has changed since the scan of the checkpoint", FailureCause.CHANGED)


def write_manifest(manifest: Manifest, entry: OpenEntry) -> None:
    """Write and sync the manifest, completely or not at all."""
    entry.hands.write(UNFINISHED_MANIFEST, entry.itself, manifest.to_json())
    entry.hands.rename(UNFINISHED_MANIFEST, entry.itself, MANIFEST, entry.itself)
    entry.hands.sync(entry.itself)


def move_items(manifest: Manifest, entry: OpenEntry, rules: MoveRequirements) -> None:
    """Move all items of a manifest that still match it, and mark the entry as moved.

    Raises:
        RefusedError: an item does not match the manifest, before or after its move.
        OSError: an item could not be moved. In both cases, other items may have been moved.

    """
    for parent, group in groupby(enumerate(manifest.items), key=lambda each: _parent(each[1])):
        waiting = [(str(number), item) for number, item in group if not exists(str(number), entry.itself)]
        if not waiting:
            continue
        with closing(open_below(entry.run, parent)) as at:
            check_changeable(at, rules.uid)
            for number, item in waiting:
                _move_item(number, item, at, entry, rules)
            entry.hands.sync(at)
    entry.hands.sync(entry.itself)
    finish(manifest, entry)


def _move_item(number: str, item: MovedItem, at: int, entry: OpenEntry, rules: MoveRequirements) -> None:
    name = item.name.rpartition("/")[2]
    if not contents.is_match(contents.examine(name, at, rules), item.things):
        raise RefusedError(f"{item.name!r} has changed while it was to be moved", FailureCause.CHANGED)
    entry.hands.rename(name, at, number, entry.itself)
    if not contents.is_match(contents.examine(number, entry.itself, rules), item.as_moved()):
        raise RefusedError(f"{item.name!r} has changed while it was moved", FailureCause.CHANGED)


def _parent(item: MovedItem) -> str:
    return item.name.rpartition("/")[0]


def finish(manifest: Manifest, entry: OpenEntry) -> None:
    """Mark an entry as moved: from now on, it can be restored or deleted."""
    changes = [_read_change(str(number), entry.itself) for number in range(len(manifest.items))]
    with suppress(FileExistsError):
        entry.hands.write(MOVED, entry.itself, encode_changes(changes))
    entry.hands.sync(entry.itself)


def _read_change(number: str, entry: int) -> int:
    """Return the last inode change of an item; 0 for a directory, and for an item that was put back."""
    with suppress(FileNotFoundError):
        status = os.stat(number, dir_fd=entry, follow_symlinks=False)
        return 0 if stat.S_ISDIR(status.st_mode) else status.st_ctime_ns
    return 0


def put_back(manifest: Manifest, entry: OpenEntry) -> list[str]:
    """Put back the manifest's items that are in the entry, without replacing anything; return why others stay there.

    An item whose name has been used again meanwhile stays in the entry.
    """
    left: list[str] = []
    for parent, group in groupby(enumerate(manifest.items), key=lambda each: _parent(each[1])):
        waiting = [(str(number), item) for number, item in group if exists(str(number), entry.itself)]
        if not waiting:
            continue
        try:
            with closing(open_below(entry.run, parent)) as at:
                check_changeable(at, manifest.uid)
                left += _put_back_into(at, waiting, entry)
        except (OSError, RefusedError) as error:
            left += [f"{item.name!r}: {explain(error)}" for number, item in waiting if exists(number, entry.itself)]
    return left


def _put_back_into(at: int, waiting: list[tuple[str, MovedItem]], entry: OpenEntry) -> list[str]:
    left: list[str] = []
    for number, item in waiting:
        name = item.name.rpartition("/")[2]
        try:
            if is_same_file(number, entry.itself, name, at):
                entry.hands.unlink(number, entry.itself)  # a rename by link and unlink was cut off between the two
            else:
                entry.hands.rename(number, entry.itself, name, at)
        except FileExistsError:
            left.append(f"{item.name!r} is there again")
        except OSError as error:
            left.append(f"{item.name!r}: {explain(error)}")
    entry.hands.sync(at, entry.itself)
    return left


def is_same_file(name: str, at: int, other: str, other_at: int) -> bool:
    if not exists(other, other_at):
        return False
    one, two = (os.stat(each, dir_fd=where, follow_symlinks=False) for each, where in ((name, at), (other, other_at)))
    return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)


def drop_entry(entry: OpenEntry) -> None:
    """Remove an entry that contains only its manifest.

    Raises:
        OSError: it contains something else.

    """
    for name in (MOVED, UNFINISHED_MANIFEST, MANIFEST):
        if exists(name, entry.itself):
            entry.hands.unlink(name, entry.itself)
    entry.hands.remove_directory(entry.name, entry.trash)
    entry.hands.sync(entry.trash)
