"""Limits the number and the idle time of connections.

uvicorn only refuses requests while too many connections are open. Here, connections time out, and if all are in use,
the one that was idle longest is closed. A request that is being answered is never interrupted for another.

Connections that send requests without a pause share `ANSWERS_A_SECOND` equally. So they delay no other connection's
first answer, and leave CPU time to the rest of the daemon.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from ckptd.web.local_peer import KNOWN_UIDS

MOST_CONNECTIONS = 200
MOST_SOCKETS = 300  # with those that have not finished TLS's greeting
SECONDS_TO_ASK = 10.0  # from the first byte of a request, or from the connection's start, to the end of its headers
ANSWERS_A_SECOND = 200  # of all connections together, except the first answer of each


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP protocol with limits on silent and idle connections."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, KNOWN_UIDS: {}}
        self.silent_since = self.loop.time()
        self._end_of_patience: asyncio.TimerHandle | None = None
        self.next_answer_at = 0.0
        self._wait_for_request()
        if len(self.connections) > MOST_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.is_idle:
            self._wait_for_request()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        self.silent_since = self.loop.time()
        wait = self._take_share()
        if wait > 0:
            self.loop.call_later(wait, self._go_on)
        else:
            self._go_on()

    def _take_share(self) -> float:
        """Return for how many seconds this connection's next request waits; a second's share is saved up."""
        now = self.loop.time()
        busy = sum(isinstance(each, PatientProtocol) and each.next_answer_at > now - 1 for each in self.connections)
        self.next_answer_at = max(self.next_answer_at, now - 1) + max(busy, 1) / ANSWERS_A_SECOND
        return self.next_answer_at - now

    def _go_on(self) -> None:
        super().on_response_complete()
        if not self.is_idle:  # the next request was already there
            self._stop_waiting()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered, or its client does not read the answer."""
        return self.cycle is None or self.cycle.response_complete or self.flow.write_paused

    def _wait_for_request(self) -> None:
        if self._end_of_patience is None and not self.transport.is_closing():
            self._end_of_patience = self.loop.call_later(SECONDS_TO_ASK, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._end_of_patience is not None:
            self._end_of_patience.cancel()
            self._end_of_patience = None

    def _make_room(self) -> None:
        others = [each for each in self.connections if isinstance(each, PatientProtocol) and each.is_idle]
        longest = min(others, key=lambda each: each.silent_since, default=self)
        self.connections.discard(longest)  # at once: it is lost only after the loop's next turn
        longest.transport.abort()


class Listener(socket.socket):
    """Accepts at most as many connections as there are file descriptors for, including unfinished TLS handshakes."""

    def __init__(self, bound: socket.socket, list_greeted: Callable[[], Iterable[asyncio.Protocol]]) -> None:
        """Take over a bound socket; who speaks HTTP is asked for when there are too many."""
        super().__init__(fileno=bound.detach())
        self._accepted: list[socket.socket] = []
        self._list_greeted = list_greeted

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, address = super().accept()
        self._accepted = [each for each in self._accepted if each.fileno() >= 0]
        self._accepted.append(accepted)
        if len(self._accepted) > MOST_SOCKETS:
            self._make_room()
        return accepted, address

    def _make_room(self) -> None:
        """End the oldest connection that has not got as far as HTTP; those that have make room for one another."""
        greeted = {_descriptor_of(each) for each in self._list_greeted()}
        oldest = next((each for each in self._accepted if each.fileno() not in greeted), None)
        if oldest is not None:
            self._accepted.remove(oldest)
            with suppress(OSError):  # its other end may be gone
                oldest.shutdown(socket.SHUT_RDWR)


def _descriptor_of(protocol: asyncio.Protocol) -> int:
    assert isinstance(protocol, H11Protocol)
    return int(protocol.transport.get_extra_info("socket").fileno())


class _Quiet(logging.Filter):
    """Drops log records that anybody who can connect could use to fill the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        is_cancelled = record.exc_info is not None and record.exc_info[0] is asyncio.CancelledError
        return record.levelno >= logging.ERROR and not is_cancelled


def quieten() -> None:
    """Keep uvicorn from logging every request that is not HTTP, or that the daemon's stop interrupts."""
    log = logging.getLogger("uvicorn.error")
    if not any(isinstance(each, _Quiet) for each in log.filters):
        log.addFilter(_Quiet())
