"""Ends processes whose parents have ended: what a program of Slurm or of the site leaves behind.

Such processes run as a user inside ckptd's service, and would use its memory and its number of processes. Linux gives
them to the nearest ancestor that adopts them, before init: to the agent's child while it lives, then to the agent.
"""

import ctypes
import os
import signal
from collections.abc import Collection
from pathlib import Path

from ckptd.checkpoints.agent.user_switch import effective_user

_PR_SET_CHILD_SUBREAPER = 36
_CHILDREN = Path("/proc/thread-self/children")
_prctl = ctypes.CDLL(None).prctl


def is_supported() -> bool:
    """Return whether this kernel lists the children of a process (CONFIG_PROC_CHILDREN)."""
    return _CHILDREN.exists()


def adopt() -> None:
    """From now on, become the parent of descendants whose own parents end. Children do not inherit this."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans(known: Collection[int]) -> bool:
    """Kill all children of this process that are not `known`, each with its process group; return whether any are left.

    Call it again until none is left: a process may have forked meanwhile, and the kernel cannot end one that a disk
    blocks. Call it from a process with one thread.
    """
    found = [process_id for process_id in _list_children() if process_id not in known]
    for process_id in found:
        _end(process_id)
    return bool(found)


def _list_children() -> list[int]:
    try:
        return [int(word) for word in _CHILDREN.read_text(encoding="ascii").split()]
    except FileNotFoundError:
        return []


def _end(process_id: int) -> None:
    try:
        if os.waitpid(process_id, os.WNOHANG)[0]:
            return
        uid, group = _read_uid(process_id), os.getpgid(process_id)
        with effective_user(uid):
            if group == os.getpgrp():  # a command that a person started has the same user as they have
                os.kill(process_id, signal.SIGKILL)
            else:
                os.killpg(group, signal.SIGKILL)  # also what it is forking at this moment
    except (OSError, ValueError):
        return  # it has ended


def _read_uid(process_id: int) -> int:
    for line in Path(f"/proc/{process_id}/status").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[1])
    raise ValueError
