"""Finds and kills every process of one cluster, also those that have left their parents.

slurmstepd outlives slurmd, and a job may leave processes in sessions of their own. What belongs to a cluster
is therefore told by a mark in the environment, which daemons hand down, and by the uids of its own job users.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from demo.patience import Deadline

MARK = "CKPTD_PRIVATE_CLUSTER"


def list_processes(directory: Path, uids: Iterable[int]) -> list[int]:
    """List the pids that carry the cluster's mark or run as one of `uids`; zombies are left out."""
    mark = f"{MARK}={directory}".encode()
    users = frozenset(uids)
    return [pid for pid in _list_pids() if pid != os.getpid() and _belongs(pid, mark, users)]


def _list_pids() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _belongs(pid: int, mark: bytes, uids: frozenset[int]) -> bool:
    process = Path("/proc", str(pid))
    try:
        if process.stat().st_uid in uids:
            return not _is_zombie(process)
        return mark in (process / "environ").read_bytes().split(b"\0")
    except OSError:  # it ended meanwhile
        return False


def _is_zombie(process: Path) -> bool:
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"


def read_command(pid: int) -> bytes:
    """Read a process's command line, its words ended by NUL; empty once it is gone."""
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:
        return b""


def kill_processes(find: Callable[[], list[int]]) -> list[int]:
    """Kill all that `find` lists until it lists none; return the pids that would not end within 10 s."""
    deadline = Deadline(10)
    while (left := find()) and not deadline.has_passed():
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    return left
