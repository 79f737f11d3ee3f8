"""Notices that a process was stopped (SIGSTOP): users can stop and continue the agent's children, which run as they do.

The kernel sends SIGCHLD to the parent when a child stops or continues, and remembers which until the parent asks. So no
stop is missed, however short it was. Nothing is read from /proc, which `ProtectProc=` may hide.
"""

import os
import signal


class ChildSignals:
    """A descriptor that becomes readable when a child of this process stops, continues or ends."""

    def __init__(self) -> None:
        """Catch SIGCHLD. Call this from the main thread."""
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # an ignored signal would not be written to the descriptor
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)

    def fileno(self) -> int:
        return self._reading

    def clear(self) -> None:
        """Make it unreadable until the next signal. Check the children afterwards."""
        try:
            while len(os.read(self._reading, 1 << 12)) == 1 << 12:
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Undo all of it, in a child as well."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._reading)
        os.close(self._writing)


def was_stopped(process_id: int) -> bool:
    """Return whether a child of this process is stopped, or was since the last call."""
    return _find_stopped(os.P_PID, process_id)


def stop_with_children() -> None:
    """From now on, stop this process if one of its own children is stopped, such as a parser.

    A child of the agent then ends as if its user had stopped it directly, instead of waiting for its own child.
    """

    def check(*_: object) -> None:
        if _find_stopped(os.P_ALL, 0):
            os.kill(os.getpid(), signal.SIGSTOP)

    signal.signal(signal.SIGCHLD, check)


def _find_stopped(kind: int, process_id: int) -> bool:
    try:
        # without WEXITED: whoever waits for the end of a child still gets its status
        return os.waitid(kind, process_id, os.WSTOPPED | os.WCONTINUED | os.WNOHANG) is not None
    except ChildProcessError:
        return False
