"""Sends one request to slurmrestd over a unix socket or TCP, within a time limit and a size limit.

Nothing is kept between requests: the token is read from its file each time, so a renewed one counts at once. Redirects
are not followed, because they would carry the token to another server.
"""

import base64
import http.client
import io
import json
import os
import re
import socket
import ssl
import stat
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from ckptd.core.model import Unknown
from ckptd.core.text.printable import replace_unprintable
from ckptd.slurm import failure_reasons, times
from ckptd.slurm.failure_reasons import FailureReason

DEFAULT_PORT = 6820
LIMIT_BYTES = 256 * 1024 * 1024  # about 80,000 jobs of Slurm 22.05, 30,000 of later releases
_TOKEN_BYTES = 64 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9_.=-]+", re.ASCII)
_USER_NAME = re.compile(r"[A-Za-z0-9_.@-]+", re.ASCII)
_DETAIL_LETTERS = 200
_REASONS = {
    401: FailureReason.NOT_PERMITTED,
    403: FailureReason.NOT_PERMITTED,
    404: FailureReason.GARBLED,
    429: FailureReason.RATE_LIMITED,
}


class _RequestError(Exception):
    """A request without a usable answer."""

    def __init__(self, trouble: FailureReason, detail: str) -> None:
        super().__init__(detail)
        self.trouble = trouble


@dataclass(frozen=True, kw_only=True)
class RestClient:
    """Where slurmrestd listens, and how to authenticate to it."""

    url: str
    """`unix:/path`, `http://host[:port]` or `https://host[:port]`."""
    token_file: Path | None = None
    """File with a JWT; without it, slurmrestd knows the peer of its unix socket (auth/local)."""
    timeout_seconds: float = 30.0
    """Maximum time for a whole request."""
    limit_bytes: int = LIMIT_BYTES
    """Maximum size of an answer."""

    def get(self, what: str, path: str) -> str | Unknown:
        """Return the body of an answer with status 200; bytes that are not UTF-8 become lone surrogates.

        An Unknown's reason names the server and the path, never the token.
        """
        try:
            status, body = self._exchange(path)
        except _RequestError as error:
            return failure_reasons.make_unknown(what, error.trouble, str(error))
        except TimeoutError:
            return self._fail(what, FailureReason.TIMED_OUT, path, f"took over {self.timeout_seconds:g} s")
        except ssl.SSLError as error:
            return self._fail(what, FailureReason.NOT_PERMITTED, path, f"TLS: {error.reason or error}")
        except (ConnectionRefusedError, FileNotFoundError) as error:
            return self._fail(what, FailureReason.DOWN, path, f"slurmrestd is not there: {error.strerror}")
        except PermissionError as error:
            return self._fail(what, FailureReason.NOT_PERMITTED, path, str(error.strerror))
        except (OSError, http.client.HTTPException, ValueError) as error:
            return self._fail(what, FailureReason.FAILED, path, f"{type(error).__name__}: {_printable(str(error))}")
        text = body.decode("utf-8", "surrogateescape")
        if status != http.client.OK:
            words = _printable(list_errors(text) or text)
            trouble = _REASONS.get(status) or failure_reasons.find_reason(words)
            detail = f"HTTP status {status}: {words}"
            if expired := self._find_expiry():
                trouble, detail = FailureReason.NOT_PERMITTED, f"{detail}; {expired}"
            return self._fail(what, trouble, path, detail)
        return text

    def _find_expiry(self) -> str | None:
        """Return that the token has expired by this host's clock: Slurm 22.05 reports an "Unspecified error" then."""
        try:
            expiry = None if self.token_file is None else read_claims(read_token(self.token_file)).get("exp")
        except _RequestError:
            return None
        ends_at = times.from_epoch(expiry) if isinstance(expiry, int) else None
        if ends_at is None or ends_at > datetime.now(UTC):
            return None
        return f"the token in rest_token_file {self.token_file} expired at {ends_at:%Y-%m-%d %H:%M:%S} UTC"

    def _fail(self, what: str, trouble: FailureReason, path: str, detail: str) -> Unknown:
        return failure_reasons.make_unknown(what, trouble, f"{self.url}{path}: {detail}")

    def _exchange(self, path: str) -> tuple[int, bytes]:
        deadline = time.monotonic() + self.timeout_seconds
        token = None if self.token_file is None else read_token(self.token_file)
        with self._connect() as connection:
            headers = ["Host: localhost", "Accept: application/json", "Connection: close"]
            if token is not None:
                headers += list_token_headers(token)
            connection.sendall("\r\n".join([f"GET {path} HTTP/1.1", *headers, "", ""]).encode("ascii"))
            answer = http.client.HTTPResponse(cast("socket.socket", _TimedSocket(connection, deadline)), method="GET")
            answer.begin()
            body = answer.read(self.limit_bytes + 1)
            if len(body) > self.limit_bytes:
                raise _RequestError(
                    FailureReason.GARBLED,
                    f'{self.url}{path}: the answer is above {self.limit_bytes} bytes; use source = "squeue"',
                )
            if answer.length:
                raise _RequestError(FailureReason.GARBLED, f"{self.url}{path}: {answer.length} bytes are missing")
            return answer.status, body

    def _connect(self) -> socket.socket:
        parts = urlsplit(self.url)
        if parts.scheme == "unix":
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(self.timeout_seconds)
            try:
                connection.connect(parts.path)
            except BaseException:
                connection.close()
                raise
            return connection
        address = (parts.hostname or "", parts.port or DEFAULT_PORT)
        plain = socket.create_connection(address, self.timeout_seconds)
        if parts.scheme != "https":
            return plain
        try:
            return ssl.create_default_context().wrap_socket(plain, server_hostname=parts.hostname)
        except BaseException:
            plain.close()
            raise


class _TimedSocket:
    """What http.client needs of a socket, with one time limit for all reads together."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._reader = _TimedReader(connection, deadline)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._reader, 256 * 1024)


class _TimedReader(io.RawIOBase):
    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


def read_token(path: Path) -> str:
    """Return the token of a file of root or of this account, which others cannot read and the group cannot write.

    Raises:
        _RequestError: the file is missing, too open or holds no token.

    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _RequestError(FailureReason.NOT_PERMITTED, f"rest_token_file {path}: {error.strerror}") from None
    with open(number, "rb") as file:
        facts = os.fstat(number)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid not in {0, os.geteuid()}:
            raise _RequestError(
                FailureReason.NOT_PERMITTED, f"rest_token_file {path} is no file of root or of this account"
            )
        if facts.st_mode & 0o027:
            raise _RequestError(
                FailureReason.NOT_PERMITTED,
                f"rest_token_file {path} has mode {stat.S_IMODE(facts.st_mode):04o}: run chmod 0600 {path}",
            )
        text = file.read(_TOKEN_BYTES).decode("ascii", "replace").strip().removeprefix("SLURM_JWT=")
    if not _TOKEN.fullmatch(text):
        raise _RequestError(FailureReason.NOT_PERMITTED, f"rest_token_file {path} holds no token")
    return text


def read_claims(token: str) -> dict[str, Any]:
    """Return what a token says of itself; empty if it is no JWT. Nothing checks the signature."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, IndexError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def list_token_headers(token: str) -> list[str]:
    """Return the headers with a token and its user, whom Slurm 22.05 requires and compares with the token's."""
    claims = read_claims(token)
    user = str(claims.get("sun") or claims.get("username") or "")
    named = [f"X-SLURM-USER-NAME: {user}"] if _USER_NAME.fullmatch(user) else []
    return [*named, f"X-SLURM-USER-TOKEN: {token}"]


def list_errors(text: str) -> str:
    """Return the words of the errors in a document of slurmrestd, which may accompany any status."""
    try:
        errors = json.loads(text)["errors"]
        return "; ".join(
            " ".join(str(error[key]) for key in ("error", "description") if error.get(key)) for error in errors
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""


def _printable(text: str) -> str:
    shown = " ".join(text[: 4 * _DETAIL_LETTERS].split())[:_DETAIL_LETTERS]
    return replace_unprintable(shown)
