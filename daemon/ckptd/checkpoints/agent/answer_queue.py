"""Answers of the agent that the main process has not read yet.

The agent must never wait for that: it has to see the end of the lease and the deadlines of its children also while the
main process is stopped or busy.
"""

import contextlib
import json
import select
import socket
from typing import Any

FULL_BYTES = 4 * 2**20  # after which the agent reads no further answers of its children
FULL_SECONDS = 0.2  # that it then waits at a time
_PIECE_BYTES = 2**18


class AnswerQueue:
    """Keeps answers, and sends to one socket what it takes at once: several answers wake the main process once."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unsent = bytearray()

    @property
    def is_empty(self) -> bool:
        return not self._unsent

    @property
    def is_full(self) -> bool:
        return len(self._unsent) >= FULL_BYTES

    def add(self, message: dict[str, Any]) -> None:
        """Add a message; `send` sends it."""
        self.add_line(json.dumps(message).encode() + b"\n")

    def add_line(self, line: bytes) -> None:
        """Add a line that is not to be encoded."""
        self._unsent += line

    def send(self) -> None:
        """Send what the socket takes now."""
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                with memoryview(self._unsent) as unsent, unsent[:_PIECE_BYTES] as piece:
                    try:
                        count = self._connection.send(piece, socket.MSG_DONTWAIT)
                    except (BrokenPipeError, ConnectionResetError):  # it is gone, and reading says so next
                        count = None
                if count is None:
                    self._unsent.clear()
                    return
                del self._unsent[:count]

    def wait(self, seconds: float | None) -> None:
        """Wait until the socket takes more, but not for long, and send it."""
        select.select([], [self._connection], [], FULL_SECONDS if seconds is None else min(seconds, FULL_SECONDS))
        self.send()
