"""SMTP servers on loopback for tests: a real one with STARTTLS and AUTH, and ones that misbehave on purpose."""

import asyncio
import email
import email.policy
import socket
import ssl
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from demo import ports
from demo.patience import Deadline, allow

USER, PASSWORD = "ckptd", "s3cret with spaces"


def make_certificate(folder):
    """Write a self-made certificate for 127.0.0.1 and its key; return both paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


class Inbox:
    """Keeps what was accepted. `answers` says instead what to answer at RCPT or DATA, `cut` cuts after acceptance."""

    def __init__(self):
        self.mails = []
        self.answers = {}
        self.unknown = set()  # addresses that nobody has
        self.cuts = 0
        self.is_held = False  # the answer to what was accepted does not come
        self.received = threading.Event()

    @property
    def ids(self):
        return Counter(mail["Message-ID"] for mail in self.mails)

    async def handle_MAIL(self, server, session, envelope, address, options):  # noqa: N802 - aiosmtpd looks for this name
        if "MAIL" in self.answers:
            return self.answers["MAIL"]
        envelope.mail_from = address
        return "250 fine"

    async def handle_RCPT(self, server, session, envelope, address, options):  # noqa: N802 - aiosmtpd looks for this name
        if "RCPT" in self.answers:
            return self.answers["RCPT"]
        if address in self.unknown:
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(address)
        return "250 fine"

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 - aiosmtpd looks for this name
        if "DATA" in self.answers:
            return self.answers["DATA"]
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        mail.envelope = envelope
        mail.session = session
        self.mails.append(mail)
        self.received.set()
        while self.is_held:  # noqa: ASYNC110 - it is set from another thread
            await asyncio.sleep(0.02)
        if self.cuts:
            self.cuts -= 1
            server.transport.abort()
        return "250 taken"


class MailServer:
    """A real SMTP server that asks for STARTTLS and AUTH."""

    def __init__(self, folder, *, security="starttls", certificate=None):
        self.inbox = Inbox()
        self.certificate, self.key = certificate or make_certificate(folder)
        context = _make_context((self.certificate, self.key))
        is_tls = security == "tls"
        self.port = free_port()
        self._controller = None
        self._options = {
            "ready_timeout": 30,
            "ssl_context": context if is_tls else None,
            "tls_context": context if security == "starttls" else None,
            "require_starttls": security == "starttls",
            "authenticator": self._authenticate,
            "auth_required": True,
            "auth_require_tls": not is_tls,  # it knows no encryption but STARTTLS
            "auth_exclude_mechanism": ["LOGIN"],
        }

    def _authenticate(self, server, session, envelope, mechanism, data):
        is_known = (data.login.decode(), data.password.decode()) == (USER, PASSWORD)
        return AuthResult(success=is_known, handled=False)

    def start(self):
        self._controller = Controller(self.inbox, hostname="127.0.0.1", port=self.port, **self._options)
        self._controller.start()

    def stop(self):
        if self._controller:
            self._controller.stop()
            self._controller = None


def _make_context(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


def free_port():
    return ports.find_free_ports(1)[0]


class SilentServer:
    """Accepts connections and never says a word."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]

    def wait_for_a_caller(self):
        """Return the connection of the next one who calls."""
        self._listener.settimeout(60)
        return self._listener.accept()[0]

    def stop(self):
        self._listener.close()


class TricklingServer:
    """Accepts, begins TLS if it has a certificate, and then says its greeting one byte at a time, for ever."""

    def __init__(self, certificate=None, *, silent_seconds=0):
        self._certificate, self._silent_seconds = certificate, silent_seconds
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        try:
            connection, _ = self._listener.accept()
            if self._certificate:
                time.sleep(self._silent_seconds)
                connection = _make_context(self._certificate).wrap_socket(connection, server_side=True)
        except OSError:
            return
        with connection:
            while not self._stop.wait(0.05):
                try:
                    connection.sendall(b"2")
                except OSError:
                    return

    def stop(self):
        self._stop.set()
        with suppress(OSError):  # it was stopped before
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(allow(10))


def wait_until(condition, seconds=20):
    """Wait for a condition with a deadline; ask more rarely the longer it takes, since to ask costs CPU time."""
    deadline, pause_seconds = Deadline(seconds), 0.02
    while not condition():
        assert not deadline.has_passed(), "it did not happen in time"
        time.sleep(pause_seconds)
        pause_seconds = min(0.2, 1.2 * pause_seconds)
