"""What one task of a first scan reads: its share of a directory's checkpoints, as a scan on the admin node does."""

import time
from typing import Any

from ckptd.checkpoints.agent.garbage_collector import collector_paused
from ckptd.checkpoints.agent.limited_child import ChildLimits
from ckptd.checkpoints.scanning import job_results
from ckptd.checkpoints.scanning.allowed_roots import open_allowed
from ckptd.checkpoints.scanning.claiming import claim_in_child
from ckptd.checkpoints.scanning.examination import examine_in_child
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.recognition import modified_ns
from ckptd.checkpoints.scanning.tree import list_tree
from ckptd.core.model import Level
from ckptd.core.verification.scan_tasks import find_task


def read_share(request: dict[str, Any], task: int, roots: list[str]) -> bytes:
    """List `request["directory"]`, read the checkpoints of a task, and return the content of its result file.

    The oldest come first, because scans on the admin node begin with the newest. What cannot be read within
    `request["seconds"]` is left out.

    Raises:
        OutsideRootsError: the directory is not below one of the roots.
        OSError: the directory cannot be opened.

    """
    limits = ChildLimits(until=time.monotonic() + request["seconds"])
    with collector_paused(), open_allowed(request["directory"], roots) as descriptor, Reader(descriptor) as reader:
        tree = list_tree(descriptor, max_depth=request["max_depth"], max_entries=request["max_entries"])
        claims, _ = claim_in_child(tree, reader, limits=limits)
        share = [claim for claim in claims if find_task(claim.path, request["task_count"]) == task]
        share.sort(key=modified_ns)
        found = examine_in_child(share, reader, Level.STRUCTURE, limits=limits)
        return job_results.encode_result(task, zip(share, found, strict=True))
