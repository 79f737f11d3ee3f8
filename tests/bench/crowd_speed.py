"""What a scrape costs while many others hold connections: run `python tests/bench/crowd_speed.py [--crowd N]`.

Each crowd is there before the first scrape and stays: connections that say nothing, that begin a request and do not
end it, that asked once and are kept, that ask for pages which wait for the database. Every scrape opens a connection.
"""

import argparse
import http.client
import resource
import socket
import statistics
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from ckptd.web.access import AccessRules
from ckptd.web.server import WebServer
from web.conftest import METRICS

SCRAPES = 200
REQUEST = b"GET %s HTTP/1.1\r\nHost: localhost\r\n"
CROWDS = {
    "nobody else": None,
    "silent connections": b"",
    "requests half sent": REQUEST % b"/metrics",
    "connections kept after an answer": REQUEST % b"/metrics" + b"\r\n",
    "pages that wait for the database": REQUEST % b"/api/v1/jobs" + b"\r\n",
}


class Hanging:
    """A record whose database does not answer until it is released."""

    def __init__(self):
        self.release = threading.Event()

    def list_jobs(self, now):
        self.release.wait()
        return ()

    def read_flags(self, cluster=None, *, include_resolved=False, run=None):
        return ()

    def read_status(self):
        return ()


def gather(stack, port, said, count):
    for _ in range(count):
        try:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            connection.sendall(said)
        except OSError:
            continue


def scrape(port):
    """Return how long a scrape took in milliseconds, and its status or what went wrong."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        answer.read()
        said = str(answer.status)
    except OSError as error:
        said = type(error).__name__
    finally:
        connection.close()
    return (time.perf_counter() - began) * 1000, said


def measure(name, said, crowd):
    record = Hanging()
    server = WebServer("127.0.0.1:0", METRICS, record, AccessRules())
    with ExitStack() as stack:
        if said is not None:
            gather(stack, server.port, said, crowd)
        found = [scrape(server.port) for _ in range(SCRAPES)]
    record.release.set()
    server.close()
    took = sorted(each for each, _ in found)
    counts = {word: sum(each == word for _, each in found) for word in {each for _, each in found}}
    print(f"{name}: {counts}, median {statistics.median(took):.1f} ms, 99 % {took[int(SCRAPES * 0.99)]:.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crowd", type=int, default=400)
    crowd = parser.parse_args().crowd
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4 * crowd + 1000), most))
    for name, said in CROWDS.items():
        measure(name, said, crowd)


if __name__ == "__main__":
    main()
