"""The program of one task of a job: reads what is requested of its checkpoints, and writes the result.

That is every byte of its pieces, or of files for their digests, or in a first scan the headers of its share.

It runs on a node as the owner of the files, with the owner's rights alone: `python -I -m ... DIRECTORY`, where the
directory is that of the ticket. Content is parsed in limited children, as on the admin node.
"""

import json
import os
import sys
import time
from pathlib import PurePosixPath
from typing import Any

from ckptd.checkpoints.scanning.digest_operation import digest
from ckptd.checkpoints.scanning.verification import verify
from ckptd.checkpoints.verify_jobs import first_scan, ticket_files
from ckptd.core.model import checkpoint_json
from ckptd.core.verification import file_digests, task_results
from ckptd.errors import CkptdError

_ROOTS = ["/"]  # the owner may read here whatever the owner may read


def main() -> None:
    """Carry out the task that SLURM_ARRAY_TASK_ID numbers."""
    run_task(sys.argv[1], int(os.environ["SLURM_ARRAY_TASK_ID"]))


def run_task(directory: str, task: int) -> None:
    """Carry out one task of the request in a ticket's directory."""
    request: dict[str, Any] = ticket_files.read_request(directory)
    if "scan" in request:
        ticket_files.write_result(directory, task, first_scan.read_share(request["scan"], task, _ROOTS))
        return
    if "digests" in request:
        found = [_digest(each) for each in request["digests"][task]]
        result = {"version": file_digests.VERSION, "task": task, "checkpoints": found}
        ticket_files.write_result(directory, task, json.dumps(result, separators=(",", ":")).encode())
        return
    item = {
        **request["limits"],
        "directory": request["directory"],
        "only": request["tasks"][task],
        "now": time.time(),
        "allowed_roots": _ROOTS,
    }
    pieces = [checkpoint_json.decode_checkpoint(each) for each in verify(item)["checkpoints"]]
    root = PurePosixPath(request["directory"])
    data = task_results.encode_result(task, [task_results.judge_piece(piece, root) for piece in pieces])
    ticket_files.write_result(directory, task, data)


def _digest(item: dict[str, Any]) -> dict[str, Any]:
    try:
        return digest({**item, "allowed_roots": _ROOTS})
    except OSError as error:
        return {"refused": error.strerror or str(error)}
    except CkptdError as error:
        return {"refused": str(error)}


if __name__ == "__main__":
    main()
