"""The program of a step: scans one directory on a node, and prints what it found.

It runs as the owner of the files, with the owner's rights alone: `python -I -m ... REQUEST`. Content is parsed in
limited children, as on the admin node.
"""

import json
import os
import signal
import sys
import time
from typing import Any

from ckptd.checkpoints.scanning.scan_operation import scan
from ckptd.core.node_scans import step_result
from ckptd.errors import CkptdError

_NOTHING_ELSE: dict[str, Any] = {
    "known": [],
    "results": None,
    "fingerprint": None,
    "work_dirs": [],
    "resuming_jobs": [],
    "candidates": [],
    "read_since": None,
    "quota_command": [],
    "allowed_roots": ["/"],  # the owner may read here whatever the owner may read
}


def main() -> None:
    """Carry out the request in the first argument."""
    request: dict[str, Any] = json.loads(sys.argv[1])
    signal.alarm(request["seconds"])
    os.nice(19)
    sys.stdout.buffer.write(run(request))


def run(request: dict[str, Any]) -> bytes:
    """Scan the directory of a request; return what is printed."""
    try:
        return step_result.encode_result(scan({**_NOTHING_ELSE, **request, "now": time.time()}))
    except OSError as error:
        return step_result.encode_failure(error.strerror or str(error))
    except CkptdError as error:
        return step_result.encode_failure(str(error))


if __name__ == "__main__":
    main()
