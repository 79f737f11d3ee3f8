"""Full verifications of checkpoints, and where they are carried out.

They read every byte, so they are requested, followed and collected instead of called. Nothing here decides which
checkpoints are verified, or what a result allows: docs/decisions/0020.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, NewType, Protocol

from ckptd.checkpoints.agent import trash_client
from ckptd.checkpoints.agent.batches import BatchRunner
from ckptd.core.model import Checkpoint, RunKey, Unknown

Ticket = NewType("Ticket", str)


class VerificationRequest(NamedTuple):
    """Checkpoints of one run whose every byte is to be read; `now` is when that was requested."""

    run: RunKey
    checkpoints: tuple[Checkpoint, ...]
    now: datetime


class TicketState(StrEnum):
    """How far a request has come."""

    WAITING = "waiting"
    RUNNING = "running"
    READY = "ready"  # its result can be collected


class Executor(Protocol):
    """Carries out full verifications as the files' owner."""

    def submit(self, request: VerificationRequest) -> Ticket | Unknown:
        """Accept a request, without waiting for its result. Unknown: why it was not accepted."""
        ...

    def follow(self, ticket: Ticket) -> TicketState | Unknown:
        """Return how far a request has come. Unknown: the ticket was cancelled, collected or never given."""
        ...

    def collect(self, ticket: Ticket) -> tuple[Checkpoint, ...] | Unknown:
        """Return the result for each requested part of the checkpoints, once; never one for any other file."""
        ...

    def cancel(self, ticket: Ticket) -> None:
        """Give up a request. One that has ended already, or is not known, is no error."""
        ...


@dataclass(slots=True)
class LocalExecutor:
    """Verifies on this node, by the agent's children.

    A request is carried out in the thread that collects it: so its caller decides how many are begun, and when.
    Tickets end with the process.
    """

    agent: BatchRunner
    deadline: timedelta
    _requests: dict[Ticket, VerificationRequest] = field(default_factory=dict)
    _submitted_count: int = 0

    def submit(self, request: VerificationRequest) -> Ticket | Unknown:
        self._submitted_count += 1
        ticket = Ticket(f"local-{self._submitted_count}")
        self._requests[ticket] = request
        return ticket

    def follow(self, ticket: Ticket) -> TicketState | Unknown:
        return TicketState.READY if ticket in self._requests else _unknown_ticket(ticket)

    def collect(self, ticket: Ticket) -> tuple[Checkpoint, ...] | Unknown:
        request = self._requests.pop(ticket, None)
        if request is None:
            return _unknown_ticket(ticket)
        found = trash_client.verify(self.agent, request.run, request.checkpoints, request.now, self.deadline)
        return found if isinstance(found, Unknown) else select_requested(request, found)

    def cancel(self, ticket: Ticket) -> None:
        self._requests.pop(ticket, None)


def select_requested(request: VerificationRequest, found: Iterable[Checkpoint]) -> tuple[Checkpoint, ...]:
    """Return the results about requested files; whoever read them also parsed hostile files, and may answer more."""
    requested = {piece.path for each in request.checkpoints for piece in each.parts or (each,)}
    return tuple(piece for piece in found if piece.path in requested)


def _unknown_ticket(ticket: Ticket) -> Unknown:
    return Unknown(what="verification", reason=f"no request has the ticket {ticket}")
