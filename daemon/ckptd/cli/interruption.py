"""Stops a long command at the first SIGINT or SIGTERM, where it may be stopped."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from ckptd.checkpoints.executor import (
    CollectedDigests,
    Executor,
    SkippedRequest,
    Ticket,
    TicketProgress,
    VerificationRequest,
    Witness,
)
from ckptd.core.model import Checkpoint, Unknown
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


@dataclass(frozen=True, slots=True)
class InterruptibleExecutor:
    """Lets a signal end the reading. A result that is being recorded is recorded first."""

    inner: Executor
    interruption: Interruption

    @property
    def witness(self) -> Witness:
        return self.inner.witness

    def submit(self, request: VerificationRequest) -> Ticket | SkippedRequest | Unknown:
        return self.inner.submit(request)

    def follow(self, ticket: Ticket) -> TicketProgress | Unknown:
        return self.inner.follow(ticket)

    def collect(self, ticket: Ticket) -> tuple[Checkpoint, ...] | Unknown:
        with self.interruption.allowed():
            return self.inner.collect(ticket)

    def collect_digests(self, ticket: Ticket) -> CollectedDigests | Unknown:
        with self.interruption.allowed():
            return self.inner.collect_digests(ticket)

    def release(self, ticket: Ticket) -> Unknown | None:
        return self.inner.release(ticket)
