"""Confines this process to some directories with the kernel's Landlock, and takes away what it could gain.

The calls are made with ctypes: the only Python package for Landlock has no stable release. The numbers are those of
linux/landlock.h and linux/prctl.h; the three system calls have the same number on every architecture. Each restriction
holds for this process and its children until they end.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from enum import IntFlag

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 23, 24, 38
_MAX_CAPABILITIES = 64

_libc = ctypes.CDLL(None, use_errno=True)


class PathRight(IntFlag):
    """Rights on files below a directory (LANDLOCK_ACCESS_FS_*)."""

    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    READ = READ_FILE | READ_DIR


_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}  # by ABI
_TCP = 3  # bind and connect, since ABI 4
_SCOPES = 3  # abstract Unix sockets and signals, since ABI 6


def read_abi() -> int:
    """Return the version of Landlock that this kernel offers; 0 where it has none or does not use it."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)))


_abi = read_abi()


def forbid_new_privileges() -> None:
    """Let no program that this process starts gain a right, such as a setuid program.

    Raises:
        OSError: the kernel refuses.

    """
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        _raise_error()


def drop_capability_bounds() -> None:
    """Empty the set of capabilities that a later program could gain, if this process has CAP_SETPCAP.

    Without it `forbid_new_privileges` has the same effect on programs.
    """
    for number in range(_MAX_CAPABILITIES):
        if (held := _libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0)) < 0:
            break  # the kernel has no more
        if held and _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            return


def confine(descriptors: Iterable[int], libraries: Iterable[str] = ()) -> bool:
    """Let this process only read, and only below these directories; return whether the kernel can do so.

    Where it can, the process also connects to no TCP port, and signals none but its own children. Files that are open
    already stay readable. `libraries` are paths that may be read, too; missing ones are ignored. Call
    `forbid_new_privileges` before.

    Raises:
        OSError: the kernel refuses.

    """
    if not _abi:
        return False
    attributes = [_RIGHTS.get(_abi, _RIGHTS[5])]
    if _abi >= 4:
        attributes.append(_TCP)
    if _abi >= 6:
        attributes.append(_SCOPES)
    packed = struct.pack(f"={len(attributes)}Q", *attributes)
    ruleset = _check(_libc.syscall(_CREATE_RULESET, packed, ctypes.c_size_t(len(packed)), 0))
    try:
        for descriptor in descriptors:
            _allow_reading(ruleset, descriptor)
        for path in libraries:
            _allow_library(ruleset, path)
        _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return True


def _allow_library(ruleset: int, path: str) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        _allow_reading(ruleset, descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # not a directory
            raise
        _add(ruleset, descriptor, PathRight.READ_FILE)
    finally:
        os.close(descriptor)


def _allow_reading(ruleset: int, descriptor: int) -> None:
    _add(ruleset, descriptor, PathRight.READ)


def _add(ruleset: int, descriptor: int, access: int) -> None:
    rule = struct.pack("=Qi", access, descriptor)
    _check(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))


def _check(result: int) -> int:
    if result < 0:
        _raise_error()
    return int(result)


def _raise_error() -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))
