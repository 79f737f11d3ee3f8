"""Mail through SMTP: one message, one recipient, several relays in order.

A message that one relay refuses is offered to the others, unless the address itself is wrong. If the answer to the
whole message is missing or invalid, it is unknown whether the relay accepted it; a retry then has the same Message-ID,
and another relay gets it if there is one.
"""

import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Literal, NamedTuple

from ckptd.core.notices.delivery import SendOutcome, SendResult
from ckptd.notify.interface import Message
from ckptd.notify.refusals import RelayAnswer, SmtpStage, quote, read_refusal
from ckptd.present.formatting import clean

_POLICY = policy.SMTP.clone(cte_type="7bit", max_line_length=78)
_WHOLE_LINES = _POLICY.clone(max_line_length=998)  # the limit of SMTP
SECONDS_DOWN = 300.0  # a relay that failed is asked last for so long
SECONDS_TO_CUT_AGAIN = 1.0
READY, SEND_DATA = 220, 354
CRAM_MD5 = "CRAM-MD5"


class Relay(NamedTuple):
    """One SMTP server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, kw_only=True, slots=True)
class MailSettings:
    """Settings of the delivery. `timeout_seconds` limits one answer, `deadline_seconds` one message on one relay.

    The answer to the whole message may take until the deadline, because relays filter the message before it.
    """

    relays: tuple[Relay, ...]
    sender: str
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    timeout_seconds: float = 30.0
    deadline_seconds: float = 120.0
    local_name: str = field(default_factory=socket.gethostname)


class MailChannel:
    """Sends mail through the first relay that accepts it."""

    def __init__(self, settings: MailSettings) -> None:
        self._settings = settings
        self._failed_at: dict[Relay, float] = {}

    def send(self, message: Message) -> SendOutcome:
        """Offer one message to the relays in order; relays that failed recently come last."""
        data = encode_mail(build_mail(message, self._settings.sender, datetime.now(UTC)))
        outcomes: list[SendOutcome] = []
        troubles: list[str] = []
        for relay in sorted(self._settings.relays, key=self._is_down):
            outcome, is_last_word = self._offer(relay, message.address, data)
            if outcome.result in {SendResult.UNREACHABLE, SendResult.UNCERTAIN}:
                self._failed_at[relay] = time.monotonic()
            if outcome.result in {SendResult.SENT, SendResult.UNCERTAIN} or is_last_word:
                return outcome
            outcomes.append(outcome)
            troubles.append(f"{relay}: {outcome.reason}")
        # where the relays differ, one of them may yet take it
        results = {outcome.result for outcome in outcomes}
        return SendOutcome(
            result=results.pop() if len(results) == 1 else SendResult.DEFERRED,
            reason="; ".join(troubles),
            is_about_address=all(outcome.is_about_address for outcome in outcomes),
        )

    def _is_down(self, relay: Relay) -> bool:
        failed_at = self._failed_at.get(relay)
        return failed_at is not None and time.monotonic() - failed_at < SECONDS_DOWN

    def _offer(self, relay: Relay, address: str, data: bytes) -> RelayAnswer:
        try:
            with _connect(relay, self._settings) as connection:
                return _hand_over(connection, self._settings, address, data)
        except (OSError, smtplib.SMTPException, ValueError) as error:
            return RelayAnswer(SendOutcome(result=SendResult.UNREACHABLE, reason=_describe(error)))


def build_mail(message: Message, sender: str, now: datetime) -> EmailMessage:
    """Return the mail of a message in ASCII only, so that no relay needs an extension."""
    mail = EmailMessage(policy=_POLICY)
    domain = sender.rpartition("@")[2]
    mail["From"] = Address(display_name="ckptd", addr_spec=sender)
    mail["To"] = Address(addr_spec=message.address)
    mail["Subject"] = clean(message.subject)
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{message.key}@{domain}>"
    if message.thread:
        mail["In-Reply-To"] = f"<run-{message.thread}@{domain}>"
        mail["References"] = f"<run-{message.thread}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(message.text)
    mail.add_alternative(message.html, subtype="html")
    return mail


def encode_mail(mail: EmailMessage) -> bytes:
    """Return the bytes of a mail; a subject in ASCII stays on the line of its name, where filters look for it."""
    # for a line that is slightly too long, the library begins a new one right after `Subject:`
    return mail.as_bytes(policy=_WHOLE_LINES if mail["Subject"].isascii() else _POLICY)


def try_relay(relay: Relay, settings: MailSettings) -> str | None:
    """Connect to a relay, encrypt and authenticate as configured, and send nothing; return why that failed."""
    try:
        with _connect(relay, settings) as connection:
            code, reply = connection.noop()
            return None if code // 100 == 2 else quote(code, reply)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        return _describe(error)


class _Deadline:
    """Closes a connection at an instant, so that a slow relay cannot block the sender."""

    def __init__(self, connection: smtplib.SMTP, seconds: float) -> None:
        self._connection = connection
        self._is_over = threading.Event()
        threading.Thread(target=self._cut, args=(seconds,), daemon=True).start()

    def _cut(self, seconds: float) -> None:
        while not self._is_over.wait(seconds):
            if (sock := self._connection.sock) is not None:
                with suppress(OSError):  # it has ended, or TLS is about to replace it
                    # not TLS's own method: before it shuts down, it lets the sender go on without encryption
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
            seconds = SECONDS_TO_CUT_AGAIN

    def cancel(self) -> None:
        self._is_over.set()


@contextmanager
def _connect(relay: Relay, settings: MailSettings) -> Iterator[smtplib.SMTP]:
    """Open a connection, encrypted and authenticated as configured."""
    connection = smtplib.SMTP(timeout=settings.timeout_seconds, local_hostname=settings.local_name)
    connection.sock = socket.create_connection(relay, settings.timeout_seconds)
    deadline = _Deadline(connection, settings.deadline_seconds)
    try:
        if settings.security == "tls":
            _encrypt(connection, relay, settings)
        _expect(connection.getreply(), READY)
        connection.ehlo_or_helo_if_needed()
        if settings.security == "starttls":
            _expect(connection.docmd("STARTTLS"), READY)
            _encrypt(connection, relay, settings)
            connection.ehlo_or_helo_if_needed()
        if settings.username and settings.password_file:
            password = settings.password_file.read_text(encoding="utf-8").rstrip("\r\n")
            _log_in(connection, settings.username, password)
        yield connection
    finally:
        deadline.cancel()
        connection.close()


def _encrypt(connection: smtplib.SMTP, relay: Relay, settings: MailSettings) -> None:
    """Start TLS; discard everything received before, including the relay's capabilities."""
    context = ssl.create_default_context(cafile=str(settings.ca_file) if settings.ca_file else None)
    assert connection.sock is not None
    connection.sock = context.wrap_socket(connection.sock, server_hostname=relay.host)
    connection.file = None
    connection.helo_resp = None
    connection.ehlo_resp = None
    connection.esmtp_features = {}
    connection.does_esmtp = False


def _log_in(connection: smtplib.SMTP, username: str, password: str) -> None:
    """Authenticate; without CRAM-MD5, which the library prefers, where this host's FIPS mode forbids MD5."""
    try:
        connection.login(username, password)
    except ValueError:  # of the digest, or of a malformed challenge
        methods = connection.esmtp_features.get("auth", "")
        if CRAM_MD5 not in methods:
            raise
        connection.docmd("*")  # ends this try
        connection.esmtp_features["auth"] = methods.replace(CRAM_MD5, "")
        connection.login(username, password)


def _expect(reply: tuple[int, bytes], code: int) -> None:
    if reply[0] != code:
        raise smtplib.SMTPResponseException(*reply)


def _hand_over(connection: smtplib.SMTP, settings: MailSettings, address: str, data: bytes) -> RelayAnswer:
    """Run one SMTP transaction; a refusal includes the command that it answers."""
    code, reply = connection.mail(settings.sender)
    if code // 100 != 2:
        # it takes nothing from us
        return RelayAnswer(SendOutcome(result=SendResult.UNREACHABLE, reason=quote(code, reply)))
    code, reply = connection.rcpt(address)
    if code // 100 != 2:
        return read_refusal(SmtpStage.RECIPIENT, code, reply)
    code, reply = connection.docmd("DATA")
    if code != SEND_DATA:
        return read_refusal(SmtpStage.DATA, code, reply)
    assert connection.sock is not None
    connection.sock.settimeout(settings.deadline_seconds)
    lines = data.replace(b"\r\n.", b"\r\n..")
    # if this fails, the end of the message has not left, and no relay accepts a message without it
    connection.send((b"." + lines if lines.startswith(b".") else lines) + b".\r\n")
    try:
        code, reply = connection.getreply()
    except (OSError, smtplib.SMTPException, ValueError) as error:  # the last from TLS that is being cut off
        return _doubt(f"no answer to the whole message: {_describe(error)}")
    if code // 100 == 2:
        return RelayAnswer(SendOutcome(result=SendResult.SENT))
    if code // 100 in {4, 5}:
        return read_refusal(SmtpStage.MESSAGE, code, reply)
    return _doubt(f"invalid answer to the whole message: {quote(code, reply)}")  # such as the beginning of `250`


def _doubt(reason: str) -> RelayAnswer:
    return RelayAnswer(SendOutcome(result=SendResult.UNCERTAIN, reason=reason))


def _describe(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        reply = error.smtp_error
        return quote(error.smtp_code, reply.encode() if isinstance(reply, str) else reply)
    return clean(str(error) or type(error).__name__, 200)
