"""A checkpoint as a look at the disk shows it."""

from pathlib import PurePosixPath

from ckptd.core.model import Checkpoint, CheckpointState, FileIdentity, Level


def make_checkpoint(path, modified_at, *, inode=1, size_bytes=100, **changes):
    """One complete file, last written at an instant."""
    path = PurePosixPath(path)
    values = {
        "format": "torch",
        "files": (path.name,),
        "identities": (FileIdentity(1, inode, size_bytes, round(modified_at.timestamp() * 1e9)),),
        "owner_uids": frozenset({1000}),
        "state": CheckpointState.COMPLETE,
        "level": Level.STRUCTURE,
    }
    return Checkpoint(path=path, modified_at=modified_at, size_bytes=size_bytes, **{**values, **changes})
