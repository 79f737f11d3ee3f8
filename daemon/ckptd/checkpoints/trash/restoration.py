"""Restores a checkpoint from the trash: completely or not at all, and without replacing anything."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePosixPath

from ckptd.checkpoints.trash.descriptors import FileOperations, Step, closing, exists, open_below
from ckptd.checkpoints.trash.entries import open_again, open_entry
from ckptd.checkpoints.trash.manifest import MOVED, Manifest, read_manifest
from ckptd.checkpoints.trash.move_aside import OpenEntry, drop_entry, finish, put_back
from ckptd.checkpoints.trash.outcome import RefusedError, TrashOutcome, TrashResult, fail
from ckptd.checkpoints.trash.trash_location import DELETING, OpenTrash, check_act_id, check_actor, is_begun, open_place
from ckptd.core.fleet.prune_totals import FailureCause


def restore(place: PurePosixPath, act_id: str, *, step: Step | None = None) -> TrashOutcome:
    """Move one checkpoint back to where it was, if nothing is there now."""

    def act(opened: OpenTrash) -> TrashOutcome:
        check_act_id(act_id)
        if is_begun(opened, act_id):
            _undo_deletion(opened, act_id, FileOperations(step))
        with open_entry(opened, act_id, FileOperations(step)) as (entry, manifest):
            is_moved = exists(MOVED, entry.itself)  # else its move, or an earlier restoration, was cut off
            if not is_moved and not opened.is_locked:  # or it goes on at this moment
                raise RefusedError("its move is not finished", FailureCause.HELD)
            _check_free(manifest, entry)
            if is_moved:
                entry.hands.unlink(MOVED, entry.itself)
                entry.hands.sync(entry.itself)
            left = put_back(manifest, entry)
            if left:
                return keep_in_trash(manifest, entry, left[0])
            drop_entry(entry)
            return make_outcome(manifest, act_id, TrashResult.RESTORED)

    return on_place(place, act_id, act)


def _undo_deletion(opened: OpenTrash, act_id: str, hands: FileOperations) -> None:
    """Make an entry restorable again whose deletion failed before it deleted anything.

    Raises:
        RefusedError: a part of it was deleted.

    """
    with closing(open_below(opened.trash, act_id + DELETING)) as itself:
        manifest = read_manifest(itself)
        check_actor(manifest.uid)
        names = [
            (f"{number}/{thing.path}" if thing.path else str(number), f"{item.name}/{thing.path}".rstrip("/"))
            for number, item in enumerate(manifest.items)
            for thing in item.things
        ]
        missing = [shown for path, shown in names if not _is_there(path, itself)]
        if missing or not exists(MOVED, itself):
            deleted_count = f"{len(missing)} of its {len(names)} files and directories are deleted"
            example = f", such as {missing[0]!r}" if missing else ""
            raise RefusedError(f"its deletion has begun: {deleted_count}{example}", FailureCause.GONE)
        hands.rename(act_id + DELETING, opened.trash, act_id, opened.trash)
        hands.sync(opened.trash)


def _is_there(path: str, itself: int) -> bool:
    parent, _, name = path.rpartition("/")
    with suppress(FileNotFoundError, NotADirectoryError), closing(open_below(itself, parent)) as at:
        return exists(name, at)
    return False


def _check_free(manifest: Manifest, entry: OpenEntry) -> None:
    for number, item in enumerate(manifest.items):
        parent, _, name = item.name.rpartition("/")
        if not exists(str(number), entry.itself):
            continue  # it was put back by an earlier try
        with closing(open_again(entry.run, parent)) as at:
            if exists(name, at):
                raise RefusedError(f"{item.name!r} is there again; move it away first", FailureCause.TAKEN)


def keep_in_trash(manifest: Manifest, entry: OpenEntry, reason: str) -> TrashOutcome:
    """Keep an entry with what could not be put back in the trash."""
    finish(manifest, entry)
    return make_outcome(manifest, entry.name, TrashResult.MOVED, f"part of it stays in the trash: {reason}")


def on_place(place: PurePosixPath, act_id: str, act: Callable[[OpenTrash], TrashOutcome]) -> TrashOutcome:
    """Run an operation on one entry of an existing trash, and return the outcome."""
    try:
        with open_place(place) as opened:
            if opened is not None:
                return act(opened)
    except (OSError, RefusedError) as error:
        return fail(error, act_id, "")
    return fail(RefusedError("there is no trash here", FailureCause.GONE), act_id, "")


def make_outcome(manifest: Manifest, act_id: str, result: TrashResult, reason: str | None = None) -> TrashOutcome:
    """Return the outcome of an operation on an entry."""
    return TrashOutcome(act_id=act_id, result=result, path=manifest.path, reason=reason, size_bytes=manifest.size_bytes)
