"""Looks at one checkpoint directory, as its owner, in the agent's child."""

import os
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from ckptd.checkpoints import wire
from ckptd.checkpoints.reader import Reader
from ckptd.checkpoints.recognise import claim_tree, examine_claims
from ckptd.checkpoints.tree import list_tree
from ckptd.core.model import Level, Scan


def scan(item: dict[str, Any]) -> dict[str, Any]:
    """Scan `item["directory"]` at `item["now"]` and return the encoded scan.

    Raises:
        OSError: the directory itself cannot be opened.

    """
    directory = PurePosixPath(item["directory"])
    now = datetime.fromtimestamp(item["now"], UTC)
    tree = list_tree(directory, max_depth=item["max_depth"], max_entries=item["max_entries"])
    with Reader(directory) as reader:
        claims, _ = claim_tree(tree, reader)
        checkpoints = tuple(examine_claims(claims, reader, root=directory, level=Level.STRUCTURE, now=now))
    space = os.statvfs(directory)
    return wire.encode_scan(
        Scan(
            directory=directory,
            scanned_at=now,
            checkpoints=checkpoints,
            problems=tuple(tree.walk_problems()),
            free_bytes=space.f_bavail * space.f_frsize,
            total_bytes=space.f_blocks * space.f_frsize,
        )
    )
