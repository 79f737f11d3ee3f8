"""Reads the listener's TLS, client certificates and passwords from a file in the format of exporter-toolkit.

The format is that of https://prometheus.io/docs/prometheus/latest/configuration/https/. The file and its certificates
are read again when they change. If they have become invalid, the log has the error and the previous settings stay in
force. Settings that Python's TLS does not support are rejected, never ignored.
"""

import base64
import binascii
import hashlib
import hmac
import logging
import re
import secrets
import ssl
import threading
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

import bcrypt
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ckptd.errors import CkptdError
from ckptd.web.certificate_expiry import parse_expiry

REMEMBERED = 256  # right passwords, so that a scrape does not pay for bcrypt each time
LONGEST_PASSWORD = 72  # bytes that bcrypt reads

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_CIPHERS = {  # names of Go and of OpenSSL; those of TLS 1.3 cannot be chosen in either
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
_HEADERS = frozenset(
    {
        "Content-Security-Policy",
        "Strict-Transport-Security",
        "X-Content-Type-Options",
        "X-Frame-Options",
        "X-XSS-Protection",
    }
)

_HASH = re.compile(r"(\$2[abxy]\$)(0[4-9]|[12][0-9]|3[01])(\$[./A-Za-z0-9]{53})")

log = logging.getLogger("ckptd.web")


class WebConfigError(CkptdError):
    """The web configuration file cannot be used; the text lists every error in it."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Tls(_Section):
    cert_file: Path
    key_file: Path
    client_auth_type: str = "NoClientCert"
    client_ca_file: Path | None = None
    min_version: Literal["TLS12", "TLS13"] = "TLS12"
    max_version: Literal["TLS12", "TLS13"] = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True

    @field_validator("client_auth_type")
    @classmethod
    def _can_be_had(cls, word: str) -> str:
        if word not in _VERIFY:
            raise ValueError(f"{word!r} is none of {', '.join(_VERIFY)}, which are those that ckptd can do")
        return word

    @field_validator("cipher_suites")
    @classmethod
    def _ciphers_are_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in names if name not in _CIPHERS]:
            raise ValueError(f"{', '.join(unknown)}: known are {', '.join(_CIPHERS)}")
        return names

    @model_validator(mode="after")
    def _certificates_can_be_verified(self) -> "_Tls":
        if (self.client_auth_type != "NoClientCert") != (self.client_ca_file is not None):
            raise ValueError("client_ca_file and a client_auth_type that verifies belong together")
        return self


class _Http(_Section):
    http2: bool = False  # HTTP/1.1 is spoken whatever it says, as clients negotiate
    headers: dict[str, str] = Field(default_factory=dict)

    @field_validator("headers")
    @classmethod
    def _headers_are_safe(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if name not in _HEADERS or not value.isprintable():
                raise ValueError(f"{name}: only {', '.join(sorted(_HEADERS))} may be set, to one line of text")
        return headers


class _File(_Section):
    tls_server_config: _Tls | None = None
    http_server_config: _Http = _Http()
    basic_auth_users: dict[str, str] = Field(default_factory=dict)

    @field_validator("basic_auth_users")
    @classmethod
    def _hashes_are_bcrypt(cls, users: dict[str, str]) -> dict[str, str]:
        for user, stored in users.items():
            parts = _HASH.fullmatch(stored)
            cheap = f"{parts[1]}04{parts[3]}" if parts else ""  # a file may have hundreds of users
            try:
                bcrypt.checkpw(b"", cheap.encode())
            except ValueError as error:
                raise ValueError(f"{user}: not a bcrypt hash, as `htpasswd -nBC 10 NAME` prints") from error
        return users


class WebConfig:
    """What the file says now. Safe to ask from several threads."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            WebConfigError: it cannot be read or has errors.

        """
        self._path = path
        self._lock = threading.Lock()
        self._trying = threading.Lock()
        self._secret = secrets.token_bytes(32)
        self._right: set[bytes] = set()
        self._stranger = bcrypt.hashpw(secrets.token_bytes(16), bcrypt.gensalt(10))
        self._stamp: tuple[object, ...] = ()
        self._watched = [path]
        self._file, self._context = self._load()
        self._expires_at = self._read_expiry()

    @property
    def has_tls(self) -> bool:
        return self._context is not None

    @property
    def certificate_expires_at(self) -> datetime | None:
        """Return when the listener's certificate expires; None without TLS, or if it cannot be parsed."""
        self._refresh()
        return self._expires_at

    @property
    def headers(self) -> dict[str, str]:
        """What every answer carries beside its own headers."""
        self._refresh()
        return dict(self._file.http_server_config.headers)

    @property
    def has_users(self) -> bool:
        """Whether everybody must prove to be one of the file's users."""
        self._refresh()
        return bool(self._file.basic_auth_users)

    def server_context(self) -> ssl.SSLContext:
        """Return a context for a listener: each connection gets the certificates that are in the files then."""
        return _CurrentContext(self)

    def current_context(self) -> ssl.SSLContext:
        """Return the context for a connection that begins now."""
        self._refresh()
        assert self._context is not None
        return self._context

    def is_allowed(self, authorization: str | None) -> bool:
        """Whether the value of a request's Authorization header proves one of the users; without users all are."""
        if self.is_proven(authorization):
            return True
        users = self._file.basic_auth_users
        name, password = read_basic(authorization)
        stored = users.get(name)
        digest = self._digest(name, password, stored)
        with self._trying:  # one bcrypt at a time: guessing must not take all processors
            if stored is not None and digest in self._right:
                return True
            hashed = stored.encode() if stored is not None else self._stranger
            if not bcrypt.checkpw(password[:LONGEST_PASSWORD], hashed):
                return False
            if stored is None or len(password) > LONGEST_PASSWORD:
                return False
            if len(self._right) >= REMEMBERED:
                self._right.clear()
            self._right.add(digest)
            return True

    def is_proven(self, authorization: str | None) -> bool:
        """Whether nothing needs to be tried: a password that was right before, or no users. It waits for nothing."""
        self._refresh()
        users = self._file.basic_auth_users
        name, password = read_basic(authorization)
        stored = users.get(name)
        return not users or (stored is not None and self._digest(name, password, stored) in self._right)

    def _digest(self, name: str, password: bytes, stored: str | None) -> bytes:
        return hmac.digest(self._secret, f"{stored}\0{name}\0".encode() + password, hashlib.sha256)

    def _refresh(self) -> None:
        with self._lock:
            if self._stamp == self._take_stamp():
                return
            try:
                found, context = self._load()
                self._check_listener(context)
            except WebConfigError as error:
                log.error("web configuration reload failed, keeping the previous one: %s", error)  # noqa: TRY400 - text is all
            else:
                self._file, self._context = found, context
                self._expires_at = self._read_expiry()

    def _check_listener(self, context: ssl.SSLContext | None) -> None:
        if (context is None) != (self._context is None):
            raise WebConfigError(f"{self._path}: TLS is turned on or off only by a restart")

    def _load(self) -> tuple[_File, ssl.SSLContext | None]:
        self._stamp = self._take_stamp()
        found = _read(self._path)
        tls = found.tls_server_config
        folder = self._path.parent
        if tls is not None:
            named = [tls.cert_file, tls.key_file, *([tls.client_ca_file] if tls.client_ca_file else [])]
            self._watched = [self._path, *(folder / path for path in named)]
            self._stamp = self._take_stamp()
        return found, _make_context(self._path, tls) if tls else None

    def _read_expiry(self) -> datetime | None:
        if (tls := self._file.tls_server_config) is None:
            return None
        try:
            return parse_expiry((self._path.parent / tls.cert_file).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            log.warning("%s: it is not known when the certificate expires: %s", tls.cert_file, error)
            return None

    def _take_stamp(self) -> tuple[object, ...]:
        return tuple(_stamp(path) for path in self._watched)


class _CurrentContext(ssl.SSLContext):
    """Stands for whatever context is current, for servers that take one for as long as they live."""

    def __new__(cls, _config: WebConfig) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, config: WebConfig) -> None:
        self._config = config

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        return self._config.current_context().wrap_socket(*arguments, **options)

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        return self._config.current_context().wrap_bio(*arguments, **options)


def _stamp(path: Path) -> object:
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return status.st_mtime_ns, status.st_ino, status.st_size


def _read(path: Path) -> _File:
    try:
        return _File.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except OSError as error:
        raise WebConfigError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise WebConfigError(f"{path}: {error}") from error
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise WebConfigError("\n".join(f"{path}: {problem}" for problem in problems)) from error


def _make_context(path: Path, tls: _Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = _VERSIONS[tls.min_version], _VERSIONS[tls.max_version]
    if tls.cipher_suites:
        context.set_ciphers(":".join(_CIPHERS[name] for name in tls.cipher_suites))
    if not tls.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_mode = _VERIFY[tls.client_auth_type]
    try:
        context.load_cert_chain(path.parent / tls.cert_file, path.parent / tls.key_file, password=_refuse_password)
        if tls.client_ca_file:
            context.load_verify_locations(path.parent / tls.client_ca_file)
    except (OSError, ValueError) as error:
        raise WebConfigError(f"{path}: tls_server_config: {error}") from error
    return context


def _refuse_password() -> str:
    raise ValueError("key_file is encrypted; give it without a password and readable only for ckptd")


def read_basic(authorization: str | None) -> tuple[str, bytes]:
    """Return the name and password of a header; empty ones, which nobody has, where it has none."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return "", b""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).partition(b":")
        return name.decode(), password
    except (binascii.Error, ValueError):
        return "", b""
