"""What a channel is: something that hands one finished message over, and says honestly how that went."""

from dataclasses import dataclass
from typing import Protocol

from ckptd.core.model import Severity
from ckptd.core.notices.outbox import Outcome
from ckptd.errors import CkptdError


class NotifyError(CkptdError):
    """A channel cannot be used as configured; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One rendered digest. Its texts hold no control characters but line ends, its subject is one line."""

    address: str
    key: str  # the same for the same message, however often it is sent
    thread: str | None  # messages about one run share it
    severity: Severity
    subject: str
    text: str
    html: str


class Channel(Protocol):
    """Sends messages one at a time; it never raises for what the other side does."""

    def send(self, message: Message) -> Outcome:
        """Hand over one message, waiting no longer than the channel's time-outs allow."""
