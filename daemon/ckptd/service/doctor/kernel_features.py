"""What the kernel offers to confine the agent's children. This module only reports it."""

import ctypes
import os
import platform
from pathlib import Path
from typing import NamedTuple

_LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture, see landlock_create_ruleset(2)
_LANDLOCK_CREATE_RULESET_VERSION = 1
_SECCOMP_ACTIONS = Path("/proc/sys/kernel/seccomp/actions_avail")


class KernelFeatures(NamedTuple):
    """`landlock_abi` is 0 without Landlock; ABI 2 and later can allow moves between directories."""

    release: str
    landlock_abi: int
    has_seccomp_filter: bool


def read_kernel_features() -> KernelFeatures:
    """Ask the kernel."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    abi = call(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET),
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint32(_LANDLOCK_CREATE_RULESET_VERSION),
    )
    try:
        has_filter = "errno" in _SECCOMP_ACTIONS.read_text(encoding="ascii").split()
    except OSError:
        has_filter = False
    return KernelFeatures(f"{os.uname().sysname} {platform.release()}", max(int(abi), 0), has_filter)
