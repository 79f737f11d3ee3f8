"""Results of earlier scans, used again while the files are unchanged, so that no file is read twice without need."""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from ckptd.checkpoints.formats import marker
from ckptd.checkpoints.formats.interface import NO_CHECKSUM, Claim
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import Checkpoint, CheckpointState, Level
from ckptd.core.model.checkpoints import UNREAD

_RANK = {Level.LISTED: 0, Level.STRUCTURE: 1, Level.FULL: 2}
_LOG_SUFFIXES = frozenset({"log", "out", "err"})


def is_whole(found: Checkpoint) -> bool:
    """Whether a checkpoint has no note, or only the note that its format has no checksum."""
    return found.reason is None or found.reason.startswith(NO_CHECKSUM)


class EarlierCheckpoints:
    """Complete checkpoints without notes, from earlier scans of one tree at the same or a higher level."""

    def __init__(self, known: Iterable[Checkpoint], root: PurePosixPath, level: Level) -> None:
        self._prefix = str(root).rstrip("/") + "/"
        self._by_path: dict[str, Checkpoint] = {}
        self._tried: dict[str, Checkpoint] = {}  # what was read, and has to be read again
        for found in known:
            if found.state is CheckpointState.COMPLETE and is_whole(found) and _RANK[found.level] >= _RANK[level]:
                self._by_path[str(found.path)] = found
            elif found.reason != UNREAD:
                self._tried[str(found.path)] = found

    def drop_unchanged(self, tree: Directory) -> list[Checkpoint]:
        """Remove the files of directories from the tree that contain only known single files and logs.

        In other directories, a new file could make the known ones parts of a larger checkpoint; and a marker could
        name another one than before.
        """
        if not self._by_path:
            return []
        taken: list[Checkpoint] = []
        for directory in _walk_apart_from_markers(tree):
            found = self._known_of(directory)
            if found:
                taken.extend(found)
                for checkpoint in found:
                    del directory.files[checkpoint.files[0]]
        return taken

    def _known_of(self, directory: Directory) -> list[Checkpoint] | None:
        """Return what is known of a directory's files, None where anything else is in it."""
        if directory.directories or directory.links:
            return None
        known: list[Checkpoint] = []
        get, prefix = self._by_path.get, self._prefix
        for name, file in directory.files.items():
            found = get(prefix + file.path)
            if found is not None and not (found.is_newest or found.is_listed) and _is_only(found, file):
                known.append(found)
            elif name.rpartition(".")[2] not in _LOG_SUFFIXES:
                return None
        return known

    def unchanged(self, claims: Iterable[Claim]) -> dict[str, Checkpoint]:
        """Return by path what is known of claims whose files are the same."""
        if not self._by_path:
            return {}
        return {
            claim.path: found
            for claim in claims
            if (found := self._by_path.get(self._prefix + claim.path)) is not None
            and found.format == claim.format
            and found.identities == tuple([file.identity for file in claim.files])
        }

    def list_tried(self, claims: Iterable[Claim]) -> frozenset[str]:
        """Return the paths of claims that an earlier scan read without finding a complete checkpoint."""
        if not self._tried:
            return frozenset()
        return frozenset(claim.path for claim in claims if self._prefix + claim.path in self._tried)


def _walk_apart_from_markers(directory: Directory) -> Iterator[Directory]:
    """Yield a directory and those below it, but none below one with a marker."""
    yield directory
    if not marker.has_marker(directory):
        for child in directory.directories.values():
            yield from _walk_apart_from_markers(child)


def _is_only(found: Checkpoint, file: File) -> bool:
    """Tell whether a checkpoint is this file alone, as it was; without making an identity for each to compare."""
    if len(found.identities) != 1:
        return False
    device, inode, size_bytes, modified_ns, changed_ns = found.identities[0]
    return (
        inode == file.inode
        and changed_ns == file.changed_ns
        and modified_ns == file.modified_ns
        and size_bytes == file.size_bytes
        and device == file.device
    )
