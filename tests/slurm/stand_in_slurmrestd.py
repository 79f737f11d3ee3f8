"""An HTTP server on a unix socket or TCP that answers as slurmrestd does, or as no healthy one would."""

import contextlib
import json
import socket
import ssl
import threading
from dataclasses import dataclass, field


@dataclass
class StandIn:
    """What the server answers, by path, and what it was asked."""

    answers: dict[str, bytes]
    requests: list[bytes] = field(default_factory=list)
    url: str = ""


def http(body, status="200 OK", length=None):
    """Return an answer's bytes; `length` is what its header claims."""
    raw = body if isinstance(body, bytes) else body.encode("utf-8", "surrogateescape")
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(raw) if length is None else length}\r\n\r\n".encode() + raw


def offer(*versions, slash=""):
    """Return the OpenAPI document of a server with these versions, such as 38."""
    return http(json.dumps({"paths": {f"/slurm/v0.0.{number}/jobs{slash}": {} for number in versions}}))


@contextlib.contextmanager
def serve(answers, directory=None, certificate=None):
    """Answer each request from `answers` until the block ends; the connection stays open where it is `None`.

    `certificate` has a certificate for localhost and its key: the server then speaks TLS.
    """
    stand_in = StandIn(answers)
    listener = socket.socket(socket.AF_UNIX if directory else socket.AF_INET)
    listener.bind(str(directory / "socket") if directory else ("127.0.0.1", 0))
    listener.listen()
    stand_in.url = f"unix:{directory}/socket" if directory else f"http://127.0.0.1:{listener.getsockname()[1]}"
    if certificate:
        stand_in.url = f"https://localhost:{listener.getsockname()[1]}"
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
    held = []

    def answer_all():
        while True:
            try:
                connection, _ = listener.accept()
                if certificate:
                    connection = tls.wrap_socket(connection, server_side=True)
            except ssl.SSLError:
                continue
            except OSError:
                return
            request = connection.recv(65536)
            stand_in.requests.append(request)
            path = request.split()[1].decode() if request else ""
            answer = stand_in.answers.get(path, http("not found", "404 NOT FOUND"))
            if answer is None:
                held.append(connection)
                continue
            with contextlib.suppress(OSError):
                connection.sendall(answer)
            connection.close()

    thread = threading.Thread(target=answer_all, daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for connection in held:
            connection.close()
