"""Sends to chat rooms, webhooks and other services through Apprise.

Its URLs contain tokens. They are therefore in a separate file, each with a name, and only the names are recorded.
"""

import importlib
import logging
import re
from pathlib import Path
from typing import Any, Self

from ckptd.core.model import Severity
from ckptd.core.notices.delivery import SendOutcome, SendResult
from ckptd.notify.interface import Message, NotifyError

_STATUS = re.compile(r"\berror=(\d{3})\b", re.ASCII)
_KINDS = {Severity.INFO: "info", Severity.WARNING: "warning", Severity.CRITICAL: "failure"}


def read_urls(path: Path) -> dict[str, str]:
    """Read a file of lines `NAME URL`; ignore empty lines and those that begin with #.

    Raises:
        NotifyError: the file cannot be read, or a line is invalid; the text names it without its secret.

    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise NotifyError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise NotifyError(f"{path} is not UTF-8") from error
    urls: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, url = line.strip().partition(" ")
        if "://" in name or "://" not in url:
            raise NotifyError(f"{path}: line {number} is not of the form NAME URL")
        if name in urls:
            raise NotifyError(f"{path}: line {number} names {name!r} again")
        urls[name] = url.strip()
    return urls


class AppriseChannel:
    """Sends to the URL of a name."""

    def __init__(self, urls_file: Path) -> None:
        try:
            self._apprise: Any = importlib.import_module("apprise")
        except ImportError as error:
            raise NotifyError("Apprise is not installed: install ckptd[apprise]") from error
        _silence_libraries()
        self._urls_file = urls_file
        for name, url in read_urls(urls_file).items():
            if not self._apprise.Apprise().add(url):
                raise NotifyError(f"{urls_file}: Apprise does not know the kind of address that {name!r} is")

    def send(self, message: Message) -> SendOutcome:
        """Send the text to one URL. Apprise reports only success or failure, so every failure is retried."""
        try:
            url = read_urls(self._urls_file).get(message.address)
        except NotifyError as error:
            return SendOutcome(result=SendResult.UNREACHABLE, reason=str(error))
        if url is None:
            return SendOutcome(result=SendResult.REFUSED, reason=f"{self._urls_file} names no {message.address!r}")
        room = self._apprise.Apprise()
        room.add(url)
        with _ReasonHandler() as remarks:
            is_taken = room.notify(
                title=message.subject, body=message.text, notify_type=_KINDS[message.severity], body_format="text"
            )
        if is_taken:
            return SendOutcome(result=SendResult.SENT)
        return SendOutcome(result=SendResult.DEFERRED, reason=f"{message.address} did not take it{remarks.reason}")


def _silence_libraries() -> None:
    """Keep URLs out of the log: Apprise and its libraries would log them with their tokens."""
    logging.getLogger("apprise").propagate = False
    for name in ("requests", "urllib3"):
        logging.getLogger(name).setLevel(logging.ERROR)


class _ReasonHandler(logging.Handler):
    """Collects the reason of a failure from Apprise's log records, reduced to the HTTP status."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if status := _STATUS.search(text):
            self.reason = f": HTTP status {status[1]}"
        elif "onnection" in text:
            self.reason = ": no connection"

    def __enter__(self) -> Self:
        logging.getLogger("apprise").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("apprise").removeHandler(self)
