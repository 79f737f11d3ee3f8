"""The interface of channels: deliver one rendered message, and report the outcome."""

from dataclasses import dataclass
from typing import Protocol

from ckptd.core.model import Severity
from ckptd.core.notices.delivery import SendOutcome
from ckptd.errors import CkptdError


class NotifyError(CkptdError):
    """A channel cannot be used as configured; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One rendered digest. Its texts contain no control characters except newlines; its subject is one line."""

    address: str
    key: str  # the same for the same message, however often it is sent
    thread: str | None  # messages about one run share it
    severity: Severity
    subject: str
    text: str
    html: str


class Channel(Protocol):
    """Sends messages one at a time; failures of the other side are outcomes, never exceptions."""

    def send(self, message: Message) -> SendOutcome:
        """Deliver one message within the channel's timeouts."""
