"""Returns memory that the process no longer uses to the system.

The C library gives each thread a heap of its own, and keeps what was freed in the middle of one. Scans of many owners
would leave holes of hundreds of megabytes.
"""

import ctypes
from datetime import datetime

from ckptd.steps.parts import Parts
from ckptd.steps.results import StepResult
from ckptd.steps.state import State

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of mallopt(3)
LARGE_BYTES = 1024 * 1024  # a block of so many bytes is mapped by itself, and unmapped when it is freed
TOP_BYTES = 16 * LARGE_BYTES  # that stay free at the end of the heap: it grows and shrinks all the time

_libc = ctypes.CDLL(None)


def use_one_heap() -> None:
    """Let threads that start from now on share one heap; do nothing where the C library is not glibc."""
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(_ARENA_MAX, 1)
        _libc.mallopt(_MMAP_THRESHOLD, LARGE_BYTES)  # a fixed one: by itself it rises to 32 MiB
        _libc.mallopt(_TRIM_THRESHOLD, TOP_BYTES)


def release() -> None:
    """Return whole free pages to the system, wherever they are."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(ctypes.c_size_t(0))


def run(_parts: Parts, _state: State, _now: datetime) -> StepResult:
    """Release what the steps before have freed."""
    release()
    return StepResult()
