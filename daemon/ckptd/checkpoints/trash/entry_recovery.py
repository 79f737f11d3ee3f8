"""Completes or undoes interrupted operations, each checkpoint as a whole. Called at every start, in every mode."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from ckptd.checkpoints.trash import contents, entries
from ckptd.checkpoints.trash.contents import MoveRequirements
from ckptd.checkpoints.trash.deletion import finish_deletion
from ckptd.checkpoints.trash.descriptors import FileOperations, Step, closing, exists, open_below
from ckptd.checkpoints.trash.entries import open_entry, rules_of
from ckptd.checkpoints.trash.entry_limit import WHOLE, TurnLimits, TurnProgress, list_names
from ckptd.checkpoints.trash.manifest import MANIFEST, MOVED, Manifest, read_manifest
from ckptd.checkpoints.trash.move_aside import OpenEntry, drop_entry, finish, is_same_file, move_items, put_back
from ckptd.checkpoints.trash.outcome import RefusedError, TrashOutcome, TrashResult, fail
from ckptd.checkpoints.trash.restoration import keep_in_trash, make_outcome
from ckptd.checkpoints.trash.trash_location import DELETING, OpenTrash, check_act_id, check_actor, is_act_id, open_place
from ckptd.core.fleet.prune_totals import FailureCause


@dataclass(frozen=True, slots=True)
class EntryRecovery:
    """The outcome of each interrupted operation, and where the next turn continues; None: the trash is done."""

    outcomes: tuple[TrashOutcome, ...]
    reached: str | None = None


def recover(place: PurePosixPath, *, step: Step | None = None) -> tuple[TrashOutcome, ...]:
    """Complete or undo all interrupted operations in one trash; return their outcomes."""
    return recover_some(place, (), WHOLE, step=step).outcomes


def recover_some(
    place: PurePosixPath, wanted: Collection[str], turn: TurnLimits, *, step: Step | None = None
) -> EntryRecovery:
    """Recover the requested operations, and one turn of the other entries of a trash."""
    outcomes: list[TrashOutcome] = []
    reached = None
    try:
        with open_place(place) as opened:
            if opened is None:
                return EntryRecovery(())
            asked = [name for act_id in wanted if is_act_id(act_id) for name in (act_id, act_id + DELETING)]
            for name in asked:
                if exists(name, opened.trash):
                    outcomes += _recover_one(opened, name, FileOperations(step))
            progress = TurnProgress(set_aside(list_names(opened.trash), asked), turn)
            for name in progress:
                if is_act_id(name.removesuffix(DELETING)):  # whoever owns the trash may have put others there
                    outcomes += _recover_one(opened, name, FileOperations(step))
            reached = progress.reached
    except (OSError, RefusedError) as error:
        outcomes.append(fail(error, "", str(place)))
    return EntryRecovery(tuple(outcomes), reached)


def set_aside(names: Collection[str], done: Collection[str]) -> list[str]:
    """Return the names without the completed ones."""
    there = set(done)
    return [name for name in names if name not in there]


def _recover_one(opened: OpenTrash, name: str, hands: FileOperations) -> tuple[TrashOutcome, ...]:
    outcome = _recover(opened, name, hands)
    return () if outcome is None else (outcome,)


def _recover(opened: OpenTrash, name: str, hands: FileOperations) -> TrashOutcome | None:
    act_id = name.removesuffix(DELETING)
    try:
        check_act_id(act_id)
        with closing(open_below(opened.trash, name)) as itself:
            if not exists(MANIFEST, itself):
                drop_entry(OpenEntry(name, opened.trash, itself, itself, hands))
                result = TrashResult.DELETED if name != act_id else TrashResult.UNDONE
                return TrashOutcome(act_id=act_id, result=result, path="", reason="cut off")
            if name != act_id:
                return finish_deletion(opened, act_id, hands)
            if exists(MOVED, itself):
                return None
            manifest = read_manifest(itself)
            check_actor(manifest.uid)
            if manifest.directory and not exists(manifest.directory, opened.base):
                return _finish_if_whole(manifest, OpenEntry(act_id, opened.trash, itself, itself, hands))
        with open_entry(opened, act_id, hands) as (entry, manifest):
            return _finish_or_undo(manifest, entry)
    except (OSError, RefusedError) as error:
        return fail(error, act_id, "")


def _finish_if_whole(manifest: Manifest, entry: OpenEntry) -> TrashOutcome:
    """Complete a move whose run's directory is gone.

    Raises:
        RefusedError: a part of the checkpoint is not in the entry; where its owner renamed the directory, it is there.

    """
    if missing := entries.find_missing(manifest, entry.itself):
        count = len(manifest.items)
        raise RefusedError(
            f"only {count - len(missing)} of its {count} parts are in the trash, and the directory "
            f"{manifest.directory!r} was removed or renamed: rename it back or make it again, and then restore",
            FailureCause.GONE,
        )
    return keep_in_trash(manifest, entry, "its directory is gone")


def _finish_or_undo(manifest: Manifest, entry: OpenEntry) -> TrashOutcome:
    """Complete a move whose files are all in the entry; undo any other, or complete it if it cannot be undone."""
    rules = rules_of(manifest, entry.itself)
    there = [exists(str(number), entry.itself) for number in range(len(manifest.items))]
    if all(there) and _is_as_written(manifest, entry, rules):
        finish(manifest, entry)
        return make_outcome(manifest, entry.name, TrashResult.MOVED, "cut off, and finished")
    if _is_any_taken(manifest, entry):
        with suppress(OSError, RefusedError):
            move_items(manifest, entry, rules)
            return make_outcome(
                manifest, entry.name, TrashResult.MOVED, "cut off, and finished: a name was taken again"
            )
    left = put_back(manifest, entry)
    if left:
        return keep_in_trash(manifest, entry, left[0])
    drop_entry(entry)
    return make_outcome(manifest, entry.name, TrashResult.UNDONE, "cut off, and put back")


def _is_as_written(manifest: Manifest, entry: OpenEntry, rules: MoveRequirements) -> bool:
    with suppress(OSError, RefusedError):
        return all(
            contents.is_match(contents.examine(str(number), entry.itself, rules), item.as_moved())
            for number, item in enumerate(manifest.items)
        )
    return False


def _is_any_taken(manifest: Manifest, entry: OpenEntry) -> bool:
    """Whether a moved file could not be put back because its name is in use again."""
    for number, item in enumerate(manifest.items):
        parent, _, name = item.name.rpartition("/")
        if not exists(str(number), entry.itself):
            continue
        with suppress(OSError, RefusedError), closing(open_below(entry.run, parent)) as at:
            if exists(name, at) and not is_same_file(str(number), entry.itself, name, at):
                return True
    return False
