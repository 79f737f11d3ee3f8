"""Finds the files in a checkpoint's directory that a person put, renamed or brought back there: so it stays."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from math import inf
from pathlib import PurePosixPath

from ckptd.core.model import Checkpoint, FileIdentity, RecordedCheckpoint, Scan

# Text, which people write by hand, and which programs also put beside the bytes of a state.
_TEXT = frozenset(
    [
        *("cfg", "conf", "csv", "html", "ini", "ipynb", "j2", "jinja", "json", "jsonl", "log", "md", "org", "py"),
        *("rst", "sh", "tex", "toml", "tsv", "txt", "yaml", "yml"),
    ]
)
_TEMPORARY = re.compile(
    r"(?i)^(?:[.~#]|te?mp)|[._~-](?:te?mp|part|partial|incomplete|unfinished|writing)(?:[._~\d-]|$)"
)
# POSIX leaves open whether rename(2) sets the change time of what it renames. Sources: pjdfstest's `rename_ctime` for
# ZFS, and Lustre's mdd_rename. A server of NFS may have any file system.
_CHANGED_BY_RENAME = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "zfs", "lustre"})
FileKey = tuple[int, int, int]  # inode, size, modification time; the device number changes with a mount
_NS = 1_000_000_000
_SHOWN = 3
MAX_LINKS = 100  # to the files of a checkpoint; where more are beside it, others are taken to be among them


def carries_state(file: str, parts: Collection[str]) -> bool:
    """Whether the bytes of a state are in a file; `parts` are the files that formats recognised, empty: all."""
    suffix = file.rpartition("/")[2].rpartition(".")[2].lower()
    return (not parts or file in parts) and suffix not in _TEXT


def list_recognised(found: Checkpoint) -> frozenset[str]:
    """Return the files of a set that formats recognised, relative to its parent; empty where it is one such thing."""
    base = f"{str(found.path.parent).rstrip('/')}/"
    return frozenset(str(part.path.parent / file).removeprefix(base) for part in found.parts for file in part.files)


def explain(found: Checkpoint, tolerance: timedelta) -> str | None:
    """Return which files were written, changed or moved in at another time than the state; None: all belong to it.

    The change time (ctime) reveals a file that was moved in with an old modification time.
    """
    if len(found.files) < 2 or _is_short(found.identities, round(tolerance.total_seconds() * _NS)):
        return None
    margin = round(tolerance.total_seconds() * _NS)
    parts = list_recognised(found)
    pairs = list(zip(found.files, found.identities, strict=False))
    state = [each for file, each in pairs if carries_state(file, parts)]
    if not state:
        return None
    written_until = max(each.modified_ns for each in state) + margin
    changed = [each.changed_ns for each in state]
    span = (min(changed) - margin, max(changed) + margin) if all(changed) else (0, inf)
    added = [
        file.rpartition("/")[2]
        for file, each in pairs
        if not carries_state(file, parts)
        and (each.modified_ns > written_until or not _is_within(each.changed_ns, span))
    ]
    return f"it contains files that are not of the checkpoint: {', '.join(sorted(added)[:_SHOWN])}" if added else None


def is_temporary(name: str) -> bool:
    """Whether a base name has a word that programs give to what they have not finished writing."""
    return _TEMPORARY.search(name) is not None


def find_taken_out(old: Checkpoint, new: Checkpoint) -> dict[FileKey, str]:
    """Return the files that a checkpoint had and has no more, by what a rename keeps; the paths are absolute."""
    if old.files == new.files:
        return {}
    there = set(new.files)
    return {key: path for file, (path, key) in zip(old.files, list_files(old), strict=False) if file not in there}


def is_renamed(found: Checkpoint, taken_out: Mapping[FileKey, str]) -> bool:
    """Whether a file of a checkpoint was taken out of a complete one, or has another name than it had there.

    Programs take the temporary word out of a name when they have finished it, which is no person's doing.
    """
    return any(
        (was := taken_out.get(key)) not in {None, path}
        and (is_temporary(path.rpartition("/")[2]) or not is_temporary(str(was).rpartition("/")[2]))
        for path, key in list_files(found)
    )


def list_files(found: Checkpoint) -> list[tuple[str, FileKey]]:
    """Return the absolute path of each file of a checkpoint, with what stays when it is renamed."""
    parent = f"{found.path.parent}/"
    return [
        (parent + file, (each.inode, each.size_bytes, each.modified_ns))
        for file, each in zip(found.files, found.identities, strict=False)
    ]


def _is_within(changed_ns: int, span: tuple[float, float]) -> bool:
    return changed_ns == 0 or span[0] <= changed_ns <= span[1]  # 0: it was not recorded


def _is_short(identities: Iterable[FileIdentity], margin: int) -> bool:
    """Whether all files were written within the margin, which is so nearly always."""
    columns = list(zip(*identities, strict=True))  # this is done for every file of every run
    modified, changed = (list(map(int, columns[at])) for at in (3, 4))
    return max(modified) - min(modified) <= margin and max(changed) - min(changed) <= margin


def _is_left_in_place(known: Checkpoint, found: Checkpoint) -> bool:
    """Whether a checkpoint's files were neither renamed nor touched, where each rename sets the change time (ctime).

    A renamed directory leaves that of its files as it is, so nothing is known of files in one of their own.
    """
    before, after = (
        sorted((file, each.changed_ns) for file, each in zip(one.files, one.identities, strict=False))
        for one in (known, found)
    )
    return before == after and all(changed_ns and "/" not in file for file, changed_ns in before)


class StayedCheckpoints:
    """The checkpoints that were there before a scan and still are; sorted by directory once they are asked about."""

    def __init__(
        self, recorded: Iterable[RecordedCheckpoint], unchanged: Iterable[RecordedCheckpoint], scan: Scan
    ) -> None:
        """`recorded` were there and may be gone; those of `unchanged` that are not among them are still there."""
        self._recorded = recorded
        self._unchanged = unchanged
        self._scan = scan

    def bring_back(self, returned: RecordedCheckpoint, found: Checkpoint) -> RecordedCheckpoint:
        """Return a deleted checkpoint whose files the scan has found again.

        If another one beside it stayed, the file system had been mounted, and a person moved it; not if its files were
        never renamed, because then the file system had hidden them.
        """
        beside = self._by_directory.get(returned.checkpoint.path.parent, ())
        inodes = {identity.inode for identity in returned.checkpoint.identities}
        is_moved = len(beside) > MAX_LINKS or any(
            inodes.isdisjoint(identity.inode for identity in each.checkpoint.identities) for each in beside
        )
        if self._scan.filesystem_type in _CHANGED_BY_RENAME:
            is_moved = is_moved and not _is_left_in_place(returned.checkpoint, found)
        renamed_at = returned.renamed_at
        if is_moved and (renamed_at is None or returned.was_in_trash):
            renamed_at = max(self._scan.scanned_at, returned.first_seen_at)  # a clock may be set back
        return replace(returned, deleted_at=None, renamed_at=renamed_at)

    @cached_property
    def _by_directory(self) -> Mapping[PurePosixPath, Sequence[RecordedCheckpoint]]:
        found = {each.path for each in self._scan.checkpoints}
        known = {each.checkpoint.path: each for each in self._recorded}
        stayed = [each for path, each in known.items() if path in found]
        stayed += [each for each in self._unchanged if each.checkpoint.path not in known]
        by_directory: dict[PurePosixPath, list[RecordedCheckpoint]] = defaultdict(list)
        for each in stayed:
            by_directory[each.checkpoint.path.parent].append(each)
        return by_directory
