"""Recognises the checkpoints below a directory as the scan does, long after they were written."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from ckptd.checkpoints.scanning.claiming import claim_tree
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.recognition import examine_claim
from ckptd.checkpoints.scanning.tree import list_tree
from ckptd.core.model import Level
from support.closed_files import assemble


def recognise(root, level=Level.STRUCTURE, *, after=timedelta(hours=1)):
    """Return the checkpoints below `root` by their paths relative to it."""
    root = Path(root)
    now = datetime.now(UTC) + after
    with Reader(root) as reader:
        claims, _ = claim_tree(list_tree(root), reader)
        examinations = [examine_claim(claim, reader, level) for claim in claims]
        found = assemble(claims, examinations, root=root, level=level, now=now)
    return {str(checkpoint.path.relative_to(root)): checkpoint for checkpoint in found}
