"""A server on loopback that receives heartbeats."""

import http.server
import threading
from contextlib import contextmanager

from demo.patience import allow


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.paths.append(self.path)
        self.server.may_answer.wait(allow(10))
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *arguments):
        """Say nothing."""


@contextmanager
def receive_heartbeats():
    """Answer with `status`, once `may_answer` is set, and keep the paths in `paths`."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.paths, server.status, server.may_answer = [], 200, threading.Event()
    server.may_answer.set()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}/secret-token"
    yield server
    server.may_answer.set()
    server.shutdown()
    thread.join()
    server.server_close()
