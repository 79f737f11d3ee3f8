"""Where tests make their files: in memory, if this host has the space.

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
    if "TMPDIR" not in os.environ and _has_space():
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # the next one who asks looks at the variable


def _has_space():
    if not MEMORY.is_mount():
        return False
    space = os.statvfs(MEMORY)
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) << 10
    has_space = space.f_bavail * space.f_frsize >= LEAST_FREE and available >= LEAST_AVAILABLE
    return has_space and not space.f_flag & os.ST_NOEXEC  # tests write programs, which containers often refuse there
