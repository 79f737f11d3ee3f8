"""Moves a checkpoint aside, and puts it back.

A file is moved by renaming it, never copied, and what is put back replaces nothing that is there now.
"""

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from ckptd.checkpoints.trash import contents
from ckptd.checkpoints.trash.contents import OpenFiles, Rules, Thing
from ckptd.checkpoints.trash.descriptors import Hands, Step, closing, exists, open_below, read_mount
from ckptd.checkpoints.trash.manifest import MANIFEST, MOVED, UNFINISHED_MANIFEST, Item, Manifest
from ckptd.checkpoints.trash.outcome import Outcome, RefusedError, Result, explain, fail
from ckptd.checkpoints.trash.place import check_act_id, check_actor, check_changeable, create_place
from ckptd.core.model import FileIdentity
from ckptd.core.pruned import Cause


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One checkpoint to move aside, as it was when the plan was made.

    `files` are relative to the parent of `path` and paired with `identities`. `markers` are names, relative to
    `directory`, of files shared with other checkpoints: they are never moved.
    """

    act_id: str  # letters, digits, '-' and '_'; becomes its name in the trash
    directory: PurePosixPath
    path: PurePosixPath
    files: tuple[str, ...]
    identities: tuple[FileIdentity, ...]
    uid: int
    reasons: tuple[str, ...]
    allowed_roots: tuple[PurePosixPath, ...]
    markers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenEntry:
    """One entry of the trash and the run's directory that it came from, both held open."""

    name: str
    trash: int
    itself: int
    run: int
    hands: Hands


def move_aside(
    request: Request, *, now: datetime, open_files: OpenFiles = frozenset(), step: Step | None = None
) -> Outcome:
    """Move one checkpoint into the trash of its directory, whole or not at all, and say how it ended.

    `open_files` is what `list_open_files` gave just before; none of them is moved.
    """
    try:
        return _move(request, now, open_files, Hands(step))
    except (OSError, RefusedError) as error:
        return fail(error, request.act_id, str(request.path))


def _move(request: Request, now: datetime, open_files: OpenFiles, hands: Hands) -> Outcome:
    check_actor(request.uid)
    check_act_id(request.act_id)
    names = _plan_names(request)
    with create_place(request.directory, request.uid, hands) as (place, run):
        rules = Rules(request.uid, os.fstat(run).st_dev, read_mount(run), open_files)
        manifest = Manifest(
            act_id=request.act_id,
            directory=place.directory,
            path=str(request.path),
            uid=request.uid,
            moved_at=now,
            reasons=request.reasons,
            items=tuple(Item(name, _examine_planned(name, run, request, rules)) for name in names),
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


def _undo(error: OSError | RefusedError, manifest: Manifest, entry: OpenEntry) -> Outcome:
    left = put_back(manifest, entry)
    if left:
        finish(entry)
        return _moved(manifest, f"{explain(error)}; what could not be put back is in the trash: {left[0]}")
    drop_entry(entry)
    return fail(error, manifest.act_id, manifest.path)


def _moved(manifest: Manifest, reason: str | None = None) -> Outcome:
    return Outcome(
        act_id=manifest.act_id,
        result=Result.MOVED,
        path=manifest.path,
        reason=reason,
        size_bytes=manifest.size_bytes,
    )


def _plan_names(request: Request) -> tuple[str, ...]:
    """Return what must be renamed, relative to the run's directory: a whole directory, or each file of a set."""
    if not any(request.directory.is_relative_to(root) for root in request.allowed_roots):
        raise RefusedError(f"{request.directory} is outside of the allowed roots", Cause.OUTSIDE)
    if ".." in request.path.parts or not request.path.is_relative_to(request.directory):
        raise RefusedError(f"{request.path} is not inside {request.directory}", Cause.OUTSIDE)
    path = request.path.relative_to(request.directory)
    if not path.parts or not request.files or len(request.files) != len(request.identities):
        raise RefusedError("it is not known which files belong to it")
    if any(part in {"", ".", ".."} for file in request.files for part in file.split("/")):
        raise RefusedError("one of its files has a name that climbs", Cause.OUTSIDE)
    if all(file.startswith(f"{path.name}/") for file in request.files):
        names: tuple[str, ...] = (path.as_posix(),)
    else:
        names = tuple((path.parent / file).as_posix() for file in request.files)
    if shared := set(names) & set(request.markers):
        raise RefusedError(f"{min(shared)} is shared with other checkpoints", Cause.OUTSIDE)
    return names


def _examine_planned(name: str, run: int, request: Request, rules: Rules) -> tuple[Thing, ...]:
    """Look at one thing and refuse it unless it is exactly what was planned."""
    found = _examine_named(name, run, rules)
    prefix = request.path.relative_to(request.directory).parent
    planned = {
        (prefix / file).as_posix(): identity for file, identity in zip(request.files, request.identities, strict=True)
    }
    newest = max(identity.modified_ns for identity in request.identities)
    seen = set()
    for thing in found:
        path = f"{name}/{thing.path}" if thing.path else name
        if thing.kind == "directory":
            continue
        identity = planned.get(path)
        if identity is None and thing.modified_ns > newest:
            raise RefusedError(f"{path!r} was added after the checkpoint was looked at", Cause.CHANGED)
        if identity is not None and identity != (thing.device, thing.inode, thing.size_bytes, thing.modified_ns):
            raise RefusedError(f"{path!r} has changed since the checkpoint was looked at", Cause.CHANGED)
        seen.add(path)
    if missing := {path for path in planned if path == name or path.startswith(f"{name}/")} - seen:
        raise RefusedError(f"{min(missing)!r} is gone", Cause.GONE)
    return found


def _examine_named(name: str, run: int, rules: Rules) -> tuple[Thing, ...]:
    parent, _, base = name.rpartition("/")
    with closing(open_below(run, parent)) as at:
        check_changeable(at, rules.uid)
        return contents.examine(base, at, rules)


def write_manifest(manifest: Manifest, entry: OpenEntry) -> None:
    """Bring the manifest to the disk, whole or not at all."""
    entry.hands.write(UNFINISHED_MANIFEST, entry.itself, manifest.to_json())
    entry.hands.rename(UNFINISHED_MANIFEST, entry.itself, MANIFEST, entry.itself)
    entry.hands.sync(entry.itself)


def move_items(manifest: Manifest, entry: OpenEntry, rules: Rules) -> None:
    """Move everything of a manifest that is still as it says, and mark the entry as finished.

    Raises:
        RefusedError: something is not as the manifest says, before or after it was moved.
        OSError: something could not be moved. In both cases some may have been moved.

    """
    with ExitStack() as held:
        parents: dict[str, int] = {}
        for number, item in enumerate(manifest.items):
            if exists(str(number), entry.itself):
                continue
            parent, _, name = item.name.rpartition("/")
            if parent not in parents:
                parents[parent] = held.enter_context(closing(open_below(entry.run, parent)))
                check_changeable(parents[parent], rules.uid)
            if contents.examine(name, parents[parent], rules) != item.things:
                raise RefusedError(f"{item.name!r} has changed while it was to be moved", Cause.CHANGED)
            entry.hands.rename(name, parents[parent], str(number), entry.itself)
            if contents.examine(str(number), entry.itself, rules) != item.things:
                raise RefusedError(f"{item.name!r} has changed while it was moved", Cause.CHANGED)
        entry.hands.sync(entry.itself, *parents.values())
    finish(entry)


def finish(entry: OpenEntry) -> None:
    """Mark an entry as moved: from here on it waits to be restored or deleted."""
    with suppress(FileExistsError):
        entry.hands.write(MOVED, entry.itself, b"")
    entry.hands.sync(entry.itself)


def put_back(manifest: Manifest, entry: OpenEntry) -> list[str]:
    """Put back whatever of the manifest is in the entry, never over something; return why the rest stays there.

    A name that was taken meanwhile belongs to whoever took it.
    """
    left: list[str] = []
    for number, item in enumerate(manifest.items):
        if not exists(str(number), entry.itself):
            continue
        try:
            _put_one_back(str(number), item, manifest.uid, entry)
        except FileExistsError:
            left.append(f"{item.name!r} is there again")
        except RefusedError as error:
            left.append(f"{item.name!r}: {error}")
        except OSError as error:
            left.append(f"{item.name!r}: {explain(error)}")
    return left


def _put_one_back(number: str, item: Item, uid: int, entry: OpenEntry) -> None:
    parent, _, name = item.name.rpartition("/")
    with closing(open_below(entry.run, parent)) as at:
        check_changeable(at, uid)
        if is_same_file(number, entry.itself, name, at):
            entry.hands.unlink(number, entry.itself)  # a rename by link and unlink was cut off between the two
        else:
            entry.hands.rename(number, entry.itself, name, at)
        entry.hands.sync(at, entry.itself)


def is_same_file(name: str, at: int, other: str, other_at: int) -> bool:
    if not exists(other, other_at):
        return False
    one, two = (os.stat(each, dir_fd=where, follow_symlinks=False) for each, where in ((name, at), (other, other_at)))
    return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)


def drop_entry(entry: OpenEntry) -> None:
    """Remove an entry that holds nothing but its manifest.

    Raises:
        OSError: it holds something.

    """
    for name in (MOVED, UNFINISHED_MANIFEST, MANIFEST):
        if exists(name, entry.itself):
            entry.hands.unlink(name, entry.itself)
    entry.hands.remove_directory(entry.name, entry.trash)
    entry.hands.sync(entry.trash)
