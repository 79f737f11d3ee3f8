"""Puts recognised things into indivisible checkpoints: which files are one, and which number is its progress.

Two mistakes are to be avoided. A set that is torn leaves nothing to resume from, and things that are taken for one set
and are not are lost together. So what cannot be told apart for sure has a doubt: it is shown, and never pruned.
"""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from ckptd.core.checkpoint_sets import assembly, membership
from ckptd.core.checkpoint_sets.directories import draft_directories
from ckptd.core.checkpoint_sets.families import make_families
from ckptd.core.checkpoint_sets.joining import draft_files, join
from ckptd.core.checkpoint_sets.pieces import OtherFile, make_pieces
from ckptd.core.model import Checkpoint


def group(
    found: Sequence[Checkpoint], others: Iterable[OtherFile], *, root: PurePosixPath, settled_ns: int
) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of one scan, in the order of their paths, with each of `found` in exactly one of them.

    `found` are the things that formats recognised, `others` the files that none did; both lie below `root`. What was
    written after `settled_ns` (since the epoch) may still be being written.
    """
    families = make_families(make_pieces(found, root))
    directories, taken = draft_directories(families, others)
    groups, alone = draft_files(families, taken)
    drafts = [*join([*directories, *groups]), *alone]
    built = [assembly.build(draft, root, settled_ns) for draft in drafts]
    return tuple(sorted(membership.mark_missing(built, drafts, settled_ns), key=lambda made: made.path))
