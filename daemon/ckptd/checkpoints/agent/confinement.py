"""Takes away from a process of the agent what its work does not need, as far as the kernel can do that.

A process that reads what users wrote may be taken over by it. It then has the rights of the files' owner, but gets
nothing outside the directories that it reads, no socket and no program. Each function is called once, in a process with
one thread, before it reads anything of a user.
"""

import os
import sys
from collections.abc import Sequence

from ckptd.checkpoints.agent import landlock, orphans, syscall_filter
from ckptd.checkpoints.agent.syscall_filter import Profile

# what Python imports late, and libraries that it then loads: code that every user can read
_LIBRARIES = tuple(
    path
    for path in dict.fromkeys((*sys.path, "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache"))
    if path.startswith("/") and path != "/"
)

# how many threads the libraries below numpy start when they are loaded; OpenBLAS raises SIGINT if it cannot start one
_THREAD_COUNTS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def drop_capability_bounds() -> None:
    """Empty the set of capabilities that programs could gain; ignored where this process may not, as without root."""
    landlock.drop_capability_bounds()


def confine_commands() -> None:
    """Confine a process that runs programs of Slurm or of the site.

    Raises:
        OSError: the kernel refuses.

    """
    landlock.forbid_new_privileges()
    syscall_filter.limit_system_calls(Profile.COMMANDS)


def hold_in_group() -> None:
    """Let this process and all that it starts stay in their process group, so that one signal ends them all.

    Otherwise a process that forks faster than it can be found could outrun whoever ends it. `setsid` and `setpgid` do
    nothing and report success.

    Raises:
        OSError: the kernel refuses.

    """
    landlock.forbid_new_privileges()
    syscall_filter.limit_system_calls(Profile.ONE_GROUP)


def confine_files() -> None:
    """Confine a process that scans or moves users' files: no sockets and no programs.

    Raises:
        OSError: the kernel refuses.

    """
    landlock.forbid_new_privileges()
    syscall_filter.limit_system_calls(Profile.FILES)


def confine_parser(directories: Sequence[int]) -> None:
    """Confine a process to reading below some open directories, and the libraries that it may import.

    It can then start no thread, and tells the libraries that it may load not to.

    Raises:
        OSError: the kernel refuses.

    """
    os.environ.update(dict.fromkeys(_THREAD_COUNTS, "1"))
    landlock.forbid_new_privileges()
    landlock.confine(directories, _LIBRARIES)
    syscall_filter.limit_system_calls(Profile.PARSER)


def list_missing() -> list[str]:
    """Return a sentence for each protection that this kernel does not offer; none where all is there."""
    missing = []
    abi = landlock.read_abi()
    if not abi:
        missing.append("Landlock is not available: parsers can read all files of the user whose checkpoints they read")
    elif abi < 4:
        missing.append(f"the kernel has Landlock ABI {abi}; from ABI 4 it also limits network connections")
    if not syscall_filter.is_supported():
        machine = os.uname().machine
        missing.append(f"there is no seccomp filter on {machine}: parsers can open sockets and start programs")
    if not orphans.is_supported():
        missing.append("the kernel has no CONFIG_PROC_CHILDREN: what a site's command leaves behind may stay")
    return missing
