"""A webhook on loopback for tests."""

import http.server
import threading
from contextlib import contextmanager


class Hook(http.server.BaseHTTPRequestHandler):
    """A webhook that keeps what it was given."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(body.decode())
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *arguments):
        """Say nothing."""


@contextmanager
def serve_hook():
    """Answer posts with `status`, keeping them in `bodies`."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.bodies, server.status = [], 200
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
