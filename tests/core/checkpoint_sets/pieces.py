"""Short words for recognised things and the checkpoints that they are put into."""

from datetime import UTC, datetime
from pathlib import PurePosixPath
from zlib import crc32

from ckptd.core.checkpoint_sets import OtherFile, group
from ckptd.core.model import Checkpoint, CheckpointState, FileIdentity, Level, Role

ROOT = PurePosixPath("/scratch/alice/run")
START_NS = 1_700_000_000_000_000_000
SETTLED_NS = START_NS + 10**15


def piece(path, at, *, role="state", step=None, epoch=None, state="complete", fmt="torch", files=None, named=None):
    """One recognised thing, written `at` seconds after the start; `step` and `epoch` are what its content says."""
    full = ROOT / path
    modified_ns = START_NS + int(at * 1e9)
    names = tuple(files or (full.name,))
    return Checkpoint(
        path=full,
        format=fmt,
        files=names,
        identities=tuple(FileIdentity(1, crc32(f"{path}{name}".encode()), 10, modified_ns, 1) for name in names),
        owner_uids=frozenset({1000}),
        size_bytes=10 * len(names),
        modified_at=datetime.fromtimestamp(modified_ns / 1e9, UTC),
        state=CheckpointState(state),
        reason="it is cut off" if state == "damaged" else None,
        level=Level.STRUCTURE,
        epoch=epoch,
        step=step if step is not None else named,
        content_epoch=epoch,
        content_step=step,
        name_step=named,
        role=Role.DATA if state == "damaged" else Role(role),
        role_evidence="by the test",
    )


def grouped(pieces, others=(), *, unchanged_since_ns=SETTLED_NS):
    """The checkpoints by their path below the root."""
    files = [OtherFile(path, FileIdentity(1, crc32(path.encode()), 5, START_NS, 1), 1000) for path in others]
    found = group(list(pieces), files, root=ROOT, unchanged_since_ns=unchanged_since_ns)
    return {str(made.path.relative_to(ROOT)): made for made in found}


def members(made):
    """All files of each checkpoint, by its path, relative to the root."""
    return {
        path: sorted(str((checkpoint.path.parent / file).relative_to(ROOT)) for file in checkpoint.files)
        for path, checkpoint in made.items()
    }


def doubts(made):
    return {path: checkpoint.grouping.doubt for path, checkpoint in made.items() if checkpoint.grouping.doubt}
