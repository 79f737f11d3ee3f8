"""Writes the log of the daemon: as text, as JSON lines, or to systemd's journal with priorities and fields.

A record may have `fields`, such as the job that it is about; the step that wrote it is added by the thread's context.
The journal is written by its native protocol (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/), because lines on stderr
have no fields.
"""

import json
import logging
import os
import socket
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TextIO

FORMATS = ("auto", "text", "json", "journal")
FIELDS = ("run", "job", "user", "rule", "step")
JOURNAL_SOCKET = "/run/systemd/journal/socket"
MAX_MESSAGE_CHARACTERS = 30_000  # a datagram has a limit
TEXT = "%(asctime)s %(levelname)s %(message)s"
_PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_PLAIN = logging.Formatter()

current_step: ContextVar[str | None] = ContextVar("current_step", default=None)


def start_logging(level: str, log_format: str, environment: Mapping[str, str]) -> None:
    """Write the log to stderr or the journal; `auto` is the journal if stderr is connected to it, otherwise text."""
    chosen = log_format
    if chosen == "auto":
        chosen = "journal" if is_journal(sys.stderr, environment) else "text"
    handler: logging.Handler = JournalHandler() if chosen == "journal" else logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if chosen == "json" else logging.Formatter(TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.getLogger("alembic").setLevel(logging.WARNING)


def is_journal(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether a stream is the one that systemd connected to its journal, by JOURNAL_STREAM (systemd.exec(5))."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def list_fields(record: logging.LogRecord) -> dict[str, str]:
    """Return what a record is about, by the names in FIELDS; those that are not known are left out."""
    known = {"step": current_step.get(), **getattr(record, "fields", {})}
    return {name: str(known[name]) for name in FIELDS if known.get(name) is not None}


def _format_message(record: logging.LogRecord) -> str:
    """Return the message with the traceback of an error."""
    return _PLAIN.format(record)


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(
            {
                "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
                "level": record.levelname.lower(),
                "message": _format_message(record),
                **list_fields(record),
            }
        )


class JournalHandler(logging.Handler):
    """Sends records to journald; if it cannot be reached, writes them to stderr with a priority (sd-daemon(3))."""

    def __init__(self, address: str = JOURNAL_SOCKET) -> None:
        super().__init__()
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)  # a stopped journald must not stop the daemon

    def close(self) -> None:
        self._socket.close()
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        priority = next((number for level, number in _PRIORITIES if record.levelno >= level), 7)
        message = _format_message(record)[:MAX_MESSAGE_CHARACTERS]
        fields = {name.upper(): value for name, value in list_fields(record).items()}
        entry = {"MESSAGE": message, "PRIORITY": str(priority), "SYSLOG_IDENTIFIER": "ckptd", **fields}
        try:
            self._socket.sendto(encode_entry(entry), self._address)
        except OSError:
            sys.stderr.write("".join(f"<{priority}>{line}\n" for line in message.splitlines()))


def encode_entry(entry: Mapping[str, str]) -> bytes:
    """Encode an entry for journald. A value with a line end is preceded by its length, so that it forges no field."""
    encoded = bytearray()
    for name, text in entry.items():
        value = text.encode("utf-8", "surrogateescape")
        if b"\n" in value:
            encoded += name.encode() + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"
        else:
            encoded += name.encode() + b"=" + value + b"\n"
    return bytes(encoded)
