"""Where tests make their files: in memory, if this host has room there.

To make a file, a directory or a link on a disk takes three to a hundred times the processor time.
"""

import os
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
LEAST_FREE = 4 << 30
LEAST_AVAILABLE = 8 << 30  # for what the tests' programs need as well


def use_memory():
    """Make temporary files in memory from now on, and in all programs that this one starts, if nobody chose a place."""
    if "TMPDIR" not in os.environ and _has_room():
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # the next one who asks looks at the variable


def _has_room():
    if not MEMORY.is_mount():
        return False
    room = os.statvfs(MEMORY)
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) << 10
    return room.f_bavail * room.f_frsize >= LEAST_FREE and available >= LEAST_AVAILABLE
