"""Stops a long command at the first SIGINT or SIGTERM, where it may be stopped."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from ckptd.errors import CkptdError


class StoppedError(CkptdError):
    """A signal stopped the command."""


@dataclass(slots=True)
class Interruption:
    """Whether a signal has arrived. What is not within `allowed` ends before the command stops."""

    is_stopped: bool = False
    _may_raise: bool = False

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Let a signal end the block.

        Raises:
            StoppedError: a signal arrives, or has arrived before.

        """
        self._may_raise = True
        try:
            if self.is_stopped:
                raise StoppedError("stopped by a signal")
            yield
        finally:
            self._may_raise = False

    @contextmanager
    def listen_to_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.is_stopped = True
        if self._may_raise:
            self._may_raise = False
            raise StoppedError("stopped by a signal")
