"""The only code that moves or deletes users' files.

Call it as the files' owner, inside the agent's child; as root it does no more than the owner could. It refuses what
is another's, linked, open on this node, mounted over, or not exactly what the plan saw, and never follows a link.

An entry of the trash is a directory named by the id of the act:
    .ckptd-trash/ID/manifest.json   what was moved, from where, by whom, every file's identity, and for how long it must
                                    be held; on the disk first
    .ckptd-trash/ID/0, 1, 2 ...     what was moved, one rename each
    .ckptd-trash/ID/moved           written last: all of it is here, and its change times since its rename
    .ckptd-trash/ID.deleting/       its hold is over and its deletion has begun

One checkpoint is one entry: its files are moved, undone, restored and deleted as one.

With the audit table: the caller records its intent and commits it before it calls, with the id that it passes as
`act_id`, and records the returned Outcome after. At every start it calls `recover` on each trash, which finishes or
undoes what was cut off and returns those Outcomes, to be recorded. An intent that still has none is settled by
`look_up` on both of `list_places`: HELD, it was moved; None, for a move, nothing was moved; None, for a deletion, it
was deleted; None, for a restoration, it was restored.
"""

from ckptd.checkpoints.scanning.open_files import list_open_files
from ckptd.checkpoints.scanning.tree import TRASH
from ckptd.checkpoints.trash.deletion import NOTHING_LEFT, Release, Unrecorded, empty, list_unrecorded
from ckptd.checkpoints.trash.entries import Entry, EntryState, Known, list_known, list_trash, look_up
from ckptd.checkpoints.trash.entry_limit import WHOLE, Turn
from ckptd.checkpoints.trash.manifest import Origin
from ckptd.checkpoints.trash.move_aside import Request, move_aside
from ckptd.checkpoints.trash.outcome import Outcome, Result
from ckptd.checkpoints.trash.place import list_places
from ckptd.checkpoints.trash.recovery import Recovered, recover, recover_some
from ckptd.checkpoints.trash.restoration import restore

__all__ = [
    "NOTHING_LEFT",
    "TRASH",
    "WHOLE",
    "Entry",
    "EntryState",
    "Known",
    "Origin",
    "Outcome",
    "Recovered",
    "Release",
    "Request",
    "Result",
    "Turn",
    "Unrecorded",
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
