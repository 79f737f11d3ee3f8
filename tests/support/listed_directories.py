"""Which directories any process lists, and which of their files it opens, as inotify reports it."""

import ctypes
import os
import struct
from contextlib import suppress

_IN_ACCESS, _IN_OPEN, _IN_ISDIR, _IN_Q_OVERFLOW = 0x1, 0x20, 0x40000000, 0x4000
_HEAD = struct.Struct("iIII")
_BUFFER_BYTES = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)


class ListedDirectories:
    """Watches directories; each `take` returns what was listed and opened since the one before."""

    def __init__(self):
        self._descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._descriptor >= 0, os.strerror(ctypes.get_errno())
        self._paths = {}

    def watch(self, path):
        found = _libc.inotify_add_watch(self._descriptor, os.fsencode(path), _IN_ACCESS | _IN_OPEN)
        assert found >= 0, os.strerror(ctypes.get_errno())
        self._paths[found] = path

    def take(self):
        """Return the directories whose entries were read, and the paths of the files in them that were opened."""
        listed, opened = set(), set()
        with suppress(BlockingIOError):
            while data := os.read(self._descriptor, _BUFFER_BYTES):
                at = 0
                while at < len(data):
                    watch, mask, _, size = _HEAD.unpack_from(data, at)
                    name = os.fsdecode(data[at + _HEAD.size : at + _HEAD.size + size].rstrip(b"\0"))
                    at += _HEAD.size + size
                    assert not mask & _IN_Q_OVERFLOW, "inotify lost events"
                    if mask & _IN_ACCESS and mask & _IN_ISDIR and not name:
                        listed.add(self._paths[watch])
                    elif mask & _IN_OPEN and not mask & _IN_ISDIR:
                        opened.add(self._paths[watch] / name)
        return listed, opened

    def close(self):
        os.close(self._descriptor)
