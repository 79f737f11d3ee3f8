"""Shows the agent until when the main process may act, in memory that both share.

The main process renews that every few seconds, and neither a stopped agent nor a full socket delays it. If the main
process is stopped or loses the lease, the time passes, and the agent carries out nothing more of what it was asked.
"""

import fcntl
import mmap
import os
import struct
import time

from ckptd.errors import CkptdError

LEASE_OVER = "the lease of the cluster was over"
NOT_BEGUN = f"{LEASE_OVER} before it was begun"
_NUMBER = struct.Struct("@d")  # eight aligned bytes: the processor writes and reads them at once
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def read_elapsed() -> float:
    """Return seconds of a clock that nobody can set and that goes on while the host sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseOverError(CkptdError):
    """The main process no longer holds the lease of its cluster: nothing is begun."""


class LeaseMemory:
    """The main process's side: it writes until when it may act. At first, it may not."""

    def __init__(self) -> None:
        descriptor = os.memfd_create("ckptd-lease", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, mmap.PAGESIZE)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            self._memory = mmap.mmap(descriptor, mmap.PAGESIZE)
            # opened again for reading only: no child of the agent can change it
            self.descriptor = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(descriptor)

    def write(self, valid_until: float) -> None:
        """Show until when this process may act, in seconds of `read_elapsed`."""
        _NUMBER.pack_into(self._memory, 0, valid_until)

    def close(self) -> None:
        """Close the descriptor that the agent was started with."""
        os.close(self.descriptor)


class LeaseView:
    """The agent's side of the memory."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, mmap.PAGESIZE, prot=mmap.PROT_READ)
        os.close(descriptor)

    @property
    def seconds_left(self) -> float:
        """Return for how long the main process may still act; negative or 0: no longer."""
        (valid_until,) = _NUMBER.unpack_from(self._memory, 0)
        return float(valid_until) - read_elapsed()
