"""Reads every byte of some checkpoints of one directory, as its owner, in the agent's child."""

from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

from ckptd.checkpoints.scanning.allowed_roots import open_allowed
from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.core.model import Level, checkpoint_json


def verify(item: dict[str, Any]) -> dict[str, Any]:
    """Inspect the things at `item["only"]`, relative to `item["directory"]`, at level full.

    Each gets its own result; the caller knows which of them form one checkpoint.

    Raises:
        OutsideRootsError: the directory is not below an allowed root.
        OSError: the directory cannot be opened.

    """
    with open_allowed(item["directory"], item["allowed_roots"]) as descriptor:
        found = inspect_tree(
            PurePosixPath(item["directory"]),
            descriptor=descriptor,
            now=datetime.fromtimestamp(item["now"], UTC),
            level=Level.FULL,
            only=frozenset(item["only"]),
            max_depth=item["max_depth"],
            max_entries=item["max_entries"],
            write_grace=timedelta(seconds=item["write_grace_seconds"]),
        )
    pieces = (piece for checkpoint in found.checkpoints for piece in checkpoint.parts or (checkpoint,))
    return {"checkpoints": [checkpoint_json.encode_checkpoint(piece) for piece in pieces]}
