"""The only code that moves or deletes users' files.

Call it in a child of the agent that runs as the owner of the files; if root calls it, it still does only what the owner
could do. It refuses files that belong to another user, are links, are open on this node, have a file system mounted
over them, or differ from the plan. It never follows a link.

An entry of the trash is one checkpoint: its files are moved, restored and deleted together. The id of the operation is
the name of its directory:
    .ckptd-trash/ID/manifest.json   what was moved, from where and by whom, the identity of every file, and the hold;
                                    written and synced first
    .ckptd-trash/ID/0, 1, 2 ...     the moved files or directories, one rename each
    .ckptd-trash/ID/moved           written last: everything is here, with the change times after the renames
    .ckptd-trash/ID.deleting/       the hold is over, and the deletion has started

Before each call, the caller records the operation in the audit table, with the id that it passes as `act_id`.
Afterwards it records the returned Outcome. At every start it calls `recover` on each trash, which completes or undoes
interrupted operations and returns their Outcomes. If a recorded operation still has no outcome, call `look_up` on both
places of `list_places`. HELD means that the checkpoint is in the trash. None means that it is not: a move did not
happen, or a deletion or restoration is complete.
"""

from ckptd.checkpoints.scanning.open_files import list_open_files
from ckptd.checkpoints.scanning.tree import TRASH
from ckptd.checkpoints.trash.deletion import NOTHING_LEFT, ReleaseRule, UnrecordedEntries, empty, list_unrecorded
from ckptd.checkpoints.trash.entries import EntryState, RequestedEntries, TrashEntry, list_known, list_trash, look_up
from ckptd.checkpoints.trash.entry_limit import WHOLE, TurnLimits
from ckptd.checkpoints.trash.entry_recovery import EntryRecovery, recover, recover_some
from ckptd.checkpoints.trash.manifest import Origin
from ckptd.checkpoints.trash.move_aside import MoveRequest, move_aside
from ckptd.checkpoints.trash.outcome import TrashOutcome, TrashResult
from ckptd.checkpoints.trash.restoration import restore
from ckptd.checkpoints.trash.trash_location import list_places

__all__ = [
    "NOTHING_LEFT",
    "TRASH",
    "WHOLE",
    "EntryRecovery",
    "EntryState",
    "MoveRequest",
    "Origin",
    "ReleaseRule",
    "RequestedEntries",
    "TrashEntry",
    "TrashOutcome",
    "TrashResult",
    "TurnLimits",
    "UnrecordedEntries",
    "empty",
    "list_known",
    "list_open_files",
    "list_places",
    "list_trash",
    "list_unrecorded",
    "look_up",
    "move_aside",
    "recover",
    "recover_some",
    "restore",
]
