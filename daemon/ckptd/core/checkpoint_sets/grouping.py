"""Groups recognised files into indivisible checkpoints, and finds the number that is their progress.

There are two possible mistakes: a set that is split leaves nothing to resume from, and files that are wrongly taken for
one set are lost together. If the grouping is not certain, the checkpoint is shown with the reason and never pruned.
"""

import posixpath
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from ckptd.core.checkpoint_sets import assembly, membership
from ckptd.core.checkpoint_sets.directories import draft_directories
from ckptd.core.checkpoint_sets.drafts import SetDraft
from ckptd.core.checkpoint_sets.file_groups import draft_files
from ckptd.core.checkpoint_sets.joining import join
from ckptd.core.checkpoint_sets.name_families import make_families
from ckptd.core.checkpoint_sets.pieces import OtherFile, make_pieces
from ckptd.core.model import Checkpoint


def group(
    found: Sequence[Checkpoint], others: Iterable[OtherFile], *, root: PurePosixPath, unchanged_since_ns: int
) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of one scan, in the order of their paths, with each of `found` in exactly one of them.

    `found` are the things that formats recognised, `others` the files that none did; both lie below `root`. What was
    written after `unchanged_since_ns` (since the epoch) may still be being written.
    """
    families = make_families(make_pieces(found, root))
    directories, taken = draft_directories(families, others)
    groups, alone = draft_files(families, taken)
    drafts = _assign_unique_paths([*join([*directories, *groups], alone), *alone])
    built = [assembly.build(draft, root, unchanged_since_ns) for draft in drafts]
    return tuple(sorted(membership.mark_missing(built, drafts, unchanged_since_ns), key=_path_order))


def _path_order(made: Checkpoint) -> str:
    """Return a text in the order of the components of paths: no name contains NUL, which comes before all others."""
    return str(made.path).replace("/", "\0")


def _assign_unique_paths(drafts: list[SetDraft]) -> list[SetDraft]:
    """Assign unique paths to checkpoints with the same path: `rank_0/step_1` beside a joined `step_1`."""
    counts = Counter(draft.path for draft in drafts)
    if len(counts) == len(drafts):
        return drafts
    shared = {path for path, count in counts.items() if count > 1}
    return [replace(draft, path=_path_of_parts(draft)) if _is_to_rename(draft, shared) else draft for draft in drafts]


def _is_to_rename(draft: SetDraft, shared: Collection[str]) -> bool:
    """Whether another checkpoint has the same path, and no file or directory with it exists."""
    is_there = draft.is_directory or any(piece.path == draft.path for piece in draft.parts)
    return draft.path in shared and not is_there


def _path_of_parts(draft: SetDraft) -> str:
    """Return the path of the first part, with the directories below the checkpoint's own moved into the name."""
    directory = posixpath.dirname(draft.path)
    below = draft.parts[0].path.removeprefix(f"{directory}/" if directory else "")
    return posixpath.join(directory, below.replace("/", "_"))
