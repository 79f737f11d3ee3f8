"""Limits the system calls of a process with seccomp, in the kernel's classic BPF.

Written here instead of with libseccomp: its Python packages need a C library that a site would have to install, and
building a filter in every child takes longer than the few instructions below. The constants are those of
linux/seccomp.h, linux/filter.h and linux/audit.h; the numbers of the calls those of each architecture.
A refused call fails with EPERM, so that a library can do without it.
"""

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterable
from enum import Enum

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _GREATER_EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data; the arguments are little endian here
_X32_BIT = 0x40000000
_NAMESPACES = 0x7E020080  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME
_CREATING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_libc = ctypes.CDLL(None, use_errno=True)

# by machine: the value of linux/audit.h, and the column of the tables
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

# name: number on x86_64, number on aarch64; None where the architecture has no such call
_Numbers = dict[str, tuple[int | None, int | None]]

# what a program of a site or of Slurm has no use for, and what attacks on the kernel begin with
_DANGEROUS: _Numbers = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),  # its operations pass by every filter
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "open_by_handle_at": (304, 265),
    "syslog": (103, 116),
    "acct": (163, 89),
}
_SOCKETS: _Numbers = {
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
}
_PROGRAMS: _Numbers = {"execve": (59, 221), "execveat": (322, 281)}
_CLONE: _Numbers = {"clone": (56, 220)}
_CLONE3: _Numbers = {"clone3": (435, 435)}  # its flags are in memory, where no filter sees them
# everything that a parser needs: read, answer, memory, time, and its own end
_PARSER: _Numbers = {
    "read": (0, 63),
    "pread64": (17, 67),
    "readv": (19, 65),
    "preadv": (295, 69),
    "preadv2": (327, 286),
    "lseek": (8, 62),
    "write": (1, 64),
    "writev": (20, 66),
    "close": (3, 57),
    "close_range": (436, 436),
    "dup": (32, 23),
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "stat": (4, None),
    "lstat": (6, None),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getdents64": (217, 61),
    "getcwd": (79, 17),
    "statfs": (137, 43),
    "fstatfs": (138, 44),
    "fadvise64": (221, 223),
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "mprotect": (10, 226),
    "madvise": (28, 233),
    "brk": (12, 214),
    "futex": (202, 98),
    "membarrier": (324, 283),
    "rseq": (334, 293),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getcpu": (309, 168),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "times": (100, 153),
    "getrusage": (98, 165),
    "getrlimit": (97, 163),
    "setrlimit": (160, 164),
    "getrandom": (318, 278),
    "uname": (63, 160),
    "sysinfo": (99, 179),
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
_OPENAT: _Numbers = {"openat": (257, 56)}
_PRLIMIT: _Numbers = {"prlimit64": (302, 261)}
_FCNTL: _Numbers = {"fcntl": (72, 25)}
# with others, such as F_SETOWN, a process has the kernel send signals to any process of its user
_FCNTL_COMMANDS = (fcntl.F_DUPFD, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_DUPFD_CLOEXEC)
_GROUPS: _Numbers = {"setpgid": (109, 154), "setsid": (112, 157)}
_SIGNALS: _Numbers = {"kill": (62, 129), "tgkill": (234, 131)}


class Profile(Enum):
    """What a process may still do."""

    COMMANDS = "commands"  # programs of Slurm and of the site: all but attacks on other processes and on the kernel
    FILES = "files"  # scans and moves: no sockets and no programs, either
    ONE_GROUP = "one group"  # all, but it cannot leave its process group, so that one signal reaches all it started
    PARSER = "parser"  # read files and answer, and nothing else


def is_supported() -> bool:
    """Return whether this kernel and architecture have these filters."""
    return os.uname().machine in _FILTERS and os.path.exists("/proc/sys/kernel/seccomp/actions_avail")


def limit_system_calls(profile: Profile) -> bool:
    """Apply a profile to this process and its children; return whether there is one for this architecture.

    The process has forbidden itself new privileges, and has one thread.

    Raises:
        OSError: the kernel has no seccomp, or refuses.

    """
    made = _FILTERS.get(os.uname().machine)
    if made is None:
        return False
    code = made[profile]
    if profile is Profile.PARSER:
        code = code.replace(_OWN_PROCESS, _own_process(os.getpid()))
    text = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(text))
    if _libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return True


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


_DENY = _instruction(_RETURN, _ERRNO | errno.EPERM)
_PERMIT = _instruction(_RETURN, _ALLOW)
_IGNORE = _instruction(_RETURN, _ERRNO)  # the call returns 0, as if it had been carried out


def _own_process(process_id: int) -> bytes:
    """Return the comparison with a process's number, in its place in the filter."""
    return _instruction(_EQUAL, process_id, 0, 1)


_OWN_PROCESS = _own_process(0x7FFFFFF1)  # replaced in each child; no process has this number


def _build(machine: str, profile: Profile) -> bytes:
    audit, column = _ARCHITECTURES[machine]
    code = [_instruction(_LOAD, _ARCHITECTURE), _instruction(_EQUAL, audit, 1, 0)]
    code += [_instruction(_RETURN, _KILL_PROCESS), _instruction(_LOAD, _NUMBER)]
    if machine == "x86_64":
        code += [_instruction(_GREATER_EQUAL, _X32_BIT, 0, 1), _DENY]

    def numbers(calls: _Numbers) -> Iterable[int]:
        return (each[column] for each in calls.values() if each[column] is not None)  # type: ignore[misc]

    def decide(calls: _Numbers, *then: bytes) -> None:
        for number in numbers(calls):
            code.extend((_instruction(_EQUAL, number, 0, len(then)), *then))

    if profile is Profile.PARSER:
        decide(_PARSER, _PERMIT)
        decide(_OPENAT, _load_argument(2), _instruction(_ANY_BIT, _CREATING, 0, 1), _DENY, _PERMIT)
        permits = [step for each in _FCNTL_COMMANDS for step in (_instruction(_EQUAL, each, 0, 1), _PERMIT)]
        decide(_FCNTL, _load_argument(1), *permits, _DENY)
        decide(_PRLIMIT, _load_argument(0), _instruction(_EQUAL, 0, 0, 1), _PERMIT, _DENY)
        decide(_SIGNALS, _load_argument(0), _OWN_PROCESS, _PERMIT, _DENY)
        return b"".join([*code, _DENY])
    if profile is Profile.ONE_GROUP:
        decide(_GROUPS, _IGNORE)  # scripts that start their own commands in a new session shall not fail
        return b"".join([*code, _PERMIT])
    decide(_DANGEROUS, _DENY)
    if profile is Profile.FILES:
        decide(_SOCKETS | _PROGRAMS, _DENY)
    decide(_CLONE3, _instruction(_RETURN, _ERRNO | errno.ENOSYS))  # so that libraries use clone
    decide(_CLONE, _load_argument(0), _instruction(_ANY_BIT, _NAMESPACES, 0, 1), _DENY, _PERMIT)
    return b"".join([*code, _PERMIT])


def _load_argument(number: int) -> bytes:
    """Return the instruction that loads the lower half of an argument."""
    return _instruction(_LOAD, _ARGUMENTS + 8 * number)


_FILTERS = {machine: {each: _build(machine, each) for each in Profile} for machine in _ARCHITECTURES}
