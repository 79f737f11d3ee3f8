"""Full verifications of checkpoints, digests of their files, and where both are carried out.

They read every byte, so they are requested, followed and collected instead of called. Nothing here decides which
checkpoints are verified, or what a result allows: docs/decisions/0020.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, NewType, Protocol

from ckptd.checkpoints.agent import digest_client, trash_client
from ckptd.checkpoints.agent.batches import BatchRunner
from ckptd.core.model import Checkpoint, RunKey, Unknown
from ckptd.core.verification.file_digests import Digests
from ckptd.core.verification.skip_reasons import SkipReason

Ticket = NewType("Ticket", str)
NO_RESULT = "verification result"  # of an Unknown: no later question will get a result for this ticket


class Witness(StrEnum):
    """Who says what an executor's results say, and so how far they are believed."""

    NODE = "node"  # ckptd itself, on this node
    OWNER = "owner"  # a job of the files' owner, who can replace its program and its results


class VerifyPlace(StrEnum):
    """Where the site has checkpoints verified in full."""

    HERE = "here"
    JOBS = "jobs"
    JOBS_OR_HERE = "jobs or here"  # here for owners who may not submit such jobs


class VerificationRequest(NamedTuple):
    """Checkpoints of one run whose every byte is to be read; `now` is when that was requested.

    A comparison asks for the digests of whole checkpoints, which may be in any location of the run.
    """

    run: RunKey
    checkpoints: tuple[Checkpoint, ...]
    now: datetime
    is_comparison: bool = False

    @property
    def pieces(self) -> tuple[Checkpoint, ...]:
        """What one format recognised each: the parts of the checkpoints that have any, and the other checkpoints."""
        if self.is_comparison:
            return self.checkpoints
        return tuple(piece for each in self.checkpoints for piece in each.parts or (each,))


class TicketState(StrEnum):
    """How far a request has come."""

    WAITING = "waiting"
    RUNNING = "running"
    READY = "ready"  # its result can be collected


class TicketProgress(NamedTuple):
    """How far a request has come, and what has a result."""

    state: TicketState
    done_bytes: int = 0  # of the pieces that have one
    finished: frozenset[int] = frozenset()  # tasks of a job that have one


class SkippedRequest(NamedTuple):
    """A request that was not accepted; nothing of it is left."""

    reason: SkipReason
    detail: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


PieceName = tuple[str, str]  # path and format
CollectedDigests = dict[PieceName, Digests | Unknown]


class Executor(Protocol):
    """Carries out full verifications and comparisons as the files' owner."""

    @property
    def witness(self) -> Witness:
        """Who answers for the results."""
        ...

    def submit(self, request: VerificationRequest) -> Ticket | SkippedRequest | Unknown:
        """Accept a request, without waiting for its result. Unknown: why it could not be submitted."""
        ...

    def follow(self, ticket: Ticket) -> TicketProgress | Unknown:
        """Return how far a request has come. Unknown: the ticket was released or never given, or nobody answers."""
        ...

    def collect(self, ticket: Ticket) -> tuple[Checkpoint, ...] | Unknown:
        """Return the result for each piece of the checkpoints that has one; never one for any other file.

        An Unknown about NO_RESULT is final; after another one, the result may be collected later.

        The ticket stays until it is released, so that a result that could not be recorded is not lost.
        """
        ...

    def collect_digests(self, ticket: Ticket) -> CollectedDigests | Unknown:
        """Return the digests of each checkpoint of a comparison, or why it has none; otherwise as `collect`."""
        ...

    def release(self, ticket: Ticket) -> Unknown | None:
        """Forget a request, and end what is left of it. One that has ended, or is not known, is no error.

        Unknown: it could not be ended, and the ticket stays.
        """
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

    @property
    def witness(self) -> Witness:
        return Witness.NODE

    def submit(self, request: VerificationRequest) -> Ticket | SkippedRequest | Unknown:
        self._submitted_count += 1
        ticket = Ticket(f"local-{self._submitted_count}")
        self._requests[ticket] = request
        return ticket

    def follow(self, ticket: Ticket) -> TicketProgress | Unknown:
        return TicketProgress(TicketState.READY) if ticket in self._requests else unknown_ticket(ticket)

    def collect(self, ticket: Ticket) -> tuple[Checkpoint, ...] | Unknown:
        request = self._requests.get(ticket)
        if request is None:
            return unknown_ticket(ticket)
        found = trash_client.verify(self.agent, request.run, request.checkpoints, request.now, self.deadline)
        return found if isinstance(found, Unknown) else select_requested(request, found)

    def collect_digests(self, ticket: Ticket) -> CollectedDigests | Unknown:
        request = self._requests.get(ticket)
        if request is None:
            return unknown_ticket(ticket)
        uid, deadline = request.run.uid, self.deadline
        return {
            name_piece(each): digest_client.read_digests(self.agent, uid, each, deadline)
            for each in request.checkpoints
        }

    def release(self, ticket: Ticket) -> Unknown | None:
        self._requests.pop(ticket, None)
        return None


def select_requested(request: VerificationRequest, found: Iterable[Checkpoint]) -> tuple[Checkpoint, ...]:
    """Return the results about requested files; whoever read them also parsed hostile files, and may answer more."""
    requested = {piece.path for piece in request.pieces}
    return tuple(piece for piece in found if piece.path in requested)


def name_piece(piece: Checkpoint) -> PieceName:
    return str(piece.path), piece.format


def unknown_ticket(ticket: Ticket) -> Unknown:
    return Unknown(what=NO_RESULT, reason=f"no request has the ticket {ticket}")
