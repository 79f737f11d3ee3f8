"""Asks the kernel for the status of the entries of a directory, without an object for each.

With an `os.stat_result` for each, it takes a quarter longer to compare a directory with its last scan. statx(2) fills a
structure whose layout is the same on all architectures (linux/stat.h). One array takes those of many files, and each
field is a slice of it. Without statx, the same is made of what `os.stat` returns.
"""

import ctypes
import os
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_SYMLINK_NOFOLLOW, _NO_AUTOMOUNT = 0x100, 0x800  # as stat(2) in Python and in the kernel
_FLAGS = _SYMLINK_NOFOLLOW | _NO_AUTOMOUNT
_BASIC_STATS = 0x7FF  # all that stat(2) returns
_SIZE = 64  # of the structure in words of 32 bits
_MODE = 7  # with 16 bits that are 0
# uid, inode, size, seconds and nanoseconds of the change and of the modification, device: 64 bits are two words
_FIELDS = (5, 8, 9, 10, 11, 24, 25, 26, 28, 29, 30, 34, 35)
_AT_ONCE = 256

_statx = getattr(ctypes.PyDLL(None), "statx", None)  # no other thread waits for the interpreter meanwhile
_structures = array("I", bytes(4 * _SIZE * _AT_ONCE))
_buffer = (ctypes.c_char * (4 * _SIZE * _AT_ONCE)).from_buffer(_structures)
_places = [ctypes.byref(_buffer, 4 * _SIZE * number) for number in range(_AT_ONCE)]


class StatusColumns(NamedTuple):
    """The status of some entries, in their order: the mode of each, and the words of each field of all of them."""

    modes: "array[int]"
    fields: tuple["array[int]", ...]


def _is_supported() -> bool:
    if _statx is None or sys.byteorder != "little":
        return False
    return bool(_statx(0, b"/", _FLAGS, _BASIC_STATS, _places[0]) == 0)


_has_statx = _is_supported()


def read_columns(descriptor: int, names: Sequence[str]) -> StatusColumns:
    """Return the status of entries of a directory; call it in a process with one thread.

    Raises:
        OSError: the status of one is not known, such as of one that was removed.

    """
    if not _has_statx or not names:
        found = [os.stat(name, dir_fd=descriptor, follow_symlinks=False) for name in names]
        rows = [(e.st_size, e.st_mtime_ns, e.st_dev, e.st_ino, e.st_uid, e.st_ctime_ns) for e in found]
        return StatusColumns(array("I", [each.st_mode for each in found]), make_fields(rows))
    encoded = os.fsencode("\0".join(names)).split(b"\0")
    modes, fields = array("I"), tuple(array("I") for _ in _FIELDS)
    for start in range(0, len(encoded), _AT_ONCE):
        some = encoded[start : start + _AT_ONCE]
        for name, place in zip(some, _places, strict=False):
            if _statx(descriptor, name, _FLAGS, _BASIC_STATS, place) != 0:  # type: ignore[misc]
                raise OSError(f"{name!r} has no status")
        end = len(some) * _SIZE
        modes += _structures[_MODE:end:_SIZE]
        for field, word in zip(fields, _FIELDS, strict=True):
            field.extend(_structures[word:end:_SIZE])
    return StatusColumns(modes, fields)


def make_fields(rows: Iterable[tuple[int, int, int, int, int, int]]) -> tuple["array[int]", ...]:
    """Return the fields that `read_columns` returns for files of these facts, in the order of those of `File`."""
    sizes, modified, devices, inodes, uids, changed = [*zip(*rows, strict=True)] or [()] * 6
    return (
        array("I", uids),
        *_split("Q", inodes),
        *_split("q", sizes),
        *_split_instants(changed),
        *_split_instants(modified),
        array("I", map(os.major, devices)),
        array("I", map(os.minor, devices)),
    )


def _split_instants(nanoseconds: Iterable[int]) -> tuple["array[int]", ...]:
    pairs = [divmod(each, 10**9) for each in nanoseconds]
    return (*_split("q", [seconds for seconds, _ in pairs]), array("I", [rest for _, rest in pairs]))


def _split(typecode: str, values: Iterable[int]) -> tuple["array[int]", "array[int]"]:
    """Return the lower and the upper halves of numbers of 64 bits."""
    words = array("I", array(typecode, values).tobytes())
    return words[0::2], words[1::2]
