"""Milliseconds of a scrape with 100,000 jobs and 10,000 runs: run `python tests/bench/scrape_speed.py [--running N]`.

The scrapes come from another process over one connection and ask for gzip, as Prometheus does: first while the daemon
rests, then while whole cycles follow each other without a pause, from squeue to the report.
"""

import argparse
import statistics
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import cycle_speed

from ckptd.errors import CkptdError
from ckptd.metrics.collector import ReportCollector
from ckptd.service import gc_tuning
from ckptd.steps import decide, poll, publish
from ckptd.web.access import AccessRules
from ckptd.web.server import WebServer
from metrics.fleet_facts import make_report

SCRAPES = 500
CLIENT = """
import http.client, sys, time
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
    connection.getresponse().read()
    print((time.perf_counter() - began) * 1000)
    time.sleep(0.02)
"""


class Unasked:
    """Stands where the record of the web is: a scrape reads nothing of it."""

    def read_flags(self):
        """Say to the pages, which are read in the background, that there is nothing."""
        raise CkptdError("no page is asked for here")


def measure(name, port):
    argv = [sys.executable, "-c", CLIENT, str(port), str(SCRAPES)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    took = sorted(map(float, done.stdout.split()))
    print(f"{name}: median {statistics.median(took):.1f} ms, 99 % {took[int(len(took) * 0.99)]:.1f} ms")


class Cycles(threading.Thread):
    """One whole cycle after the other, until told to stop."""

    def __init__(self, prepared, collector):
        super().__init__()
        self.count = 0
        self.is_over = threading.Event()
        self._prepared = prepared
        self._collector = collector

    def run(self):
        while not self.is_over.is_set():
            self.do_one()

    def do_one(self):
        self.count += 1
        parts, state = self._prepared.parts, self._prepared.state
        now = cycle_speed.START + timedelta(minutes=self.count)
        poll.record_queue(parts, state, *poll.observe_queue(parts, state, now), now)
        decide.decide(parts, state, now)
        self._collector.publish(publish.report(parts, state, now))


def measure_during_cycles(prepared, collector, port):
    """Scrape while a thread works; the first cycle, which reads the whole record, is the daemon's start."""
    prepared.write_queue(1)
    cycles = Cycles(prepared, collector)
    cycles.do_one()
    cycles.start()
    measure("scrape, cycles without a pause", port)
    cycles.is_over.set()
    cycles.join()
    print(f"there were {cycles.count - 1} cycles meanwhile")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--running", type=int, default=10_000)
    running = parser.parse_args().running
    gc_tuning.avoid_long_pauses()
    collector = ReportCollector("bench", started_at=cycle_speed.START)
    collector.publish(make_report(cycle_speed.START, runs=running, flag_count=running // 5, partition_count=60))
    text = collector.exposition.read(is_compressed=False)
    series = sum(1 for line in text.splitlines() if line and not line.startswith(b"#"))
    small = len(collector.exposition.read(is_compressed=True))
    print(f"{running} runs, {running * 10} jobs: {series} series, {len(text)} bytes, {small} as gzip")
    server = WebServer("127.0.0.1:0", collector.exposition, Unasked(), AccessRules())
    measure("scrape, daemon at rest", server.port)
    with cycle_speed.prepare(running * 10, running) as prepared:
        measure_during_cycles(prepared, collector, server.port)
    server.close()


if __name__ == "__main__":
    main()
