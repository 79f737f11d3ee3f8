"""What the record knows about the content of a copy: whether a comparison of its present files differs.

Several runs may copy to the same directory. A copy may then have the content of one run's checkpoint, and differ from
that of another run: each run goes by the comparisons with its own.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from ckptd.core.model import Checkpoint, ContentComparison, RecordedCheckpoint, RunRecord

MAX_COMPARISONS = 8  # of one copy


def identify_files(found: Checkpoint) -> str:
    """Return what changes as soon as somebody writes to a file of a checkpoint, or replaces it.

    It leaves out the device, whose number differs between nodes and mounts.
    """
    names = "\0".join(found.files).encode("utf-8", "surrogatepass")
    known = [(each.inode, each.size_bytes, each.modified_ns, each.changed_ns) for each in found.identities]
    return blake2b(repr(known).encode() + names, digest_size=16).hexdigest()


def add_comparison(known: Sequence[ContentComparison], found: ContentComparison) -> tuple[ContentComparison, ...]:
    """Return the comparisons of a copy with a new one, without those that it makes obsolete."""
    still = [each for each in known if each.copy_files == found.copy_files and each.original != found.original]
    return (*still, found)[-MAX_COMPARISONS:]


def find_comparison(history: RunRecord, copy: RecordedCheckpoint) -> ContentComparison | None:
    """Return the last comparison of a copy with a checkpoint of a run, if its files are still those that were read.

    One without a difference comes first: what is the same as one checkpoint of the run may differ from another.
    """
    return _find_within((history.key.directory, *(one.directory for one in history.earlier)), copy)


def _find_within(directories: Iterable[str], copy: RecordedCheckpoint) -> ContentComparison | None:
    if not copy.comparisons:
        return None
    files = identify_files(copy.checkpoint)
    places = [f"{each.rstrip('/')}/" for each in directories]
    known = [
        each
        for each in copy.comparisons
        if each.copy_files == files and any(f"{each.original}/".startswith(place) for place in places)
    ]
    return max(reversed(known), key=lambda each: each.differing_file is None, default=None)


def differs(history: RunRecord, copy: RecordedCheckpoint) -> bool:
    """Whether a copy is known to have another content than a run's checkpoint: then it is none of that run.

    That holds whatever becomes of the original. Once the copy's own files are written again, nothing is known.
    """
    known = find_comparison(history, copy)
    return known is not None and known.differing_file is not None


def differs_within(directories: Iterable[str], copy: RecordedCheckpoint) -> bool:
    """Whether a copy is known to have another content than a checkpoint of the run that saves in these directories."""
    known = _find_within(directories, copy)
    return known is not None and known.differing_file is not None
