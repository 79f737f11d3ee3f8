"""Measures a scrape of a daemon with 100,000 jobs and 10,000 runs: latency over HTTP, series, and the summing up.

Run it with `.venv/bin/python tests/bench/scrape_speed.py [RUNS]`.
"""

import statistics
import sys
import threading
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry

from ckptd.core import fleet
from ckptd.metrics.collector import ReportCollector
from ckptd.service.daemon import SWITCH_SECONDS
from ckptd.web.access import AccessRules
from ckptd.web.server import WebServer

sys.path.insert(0, str(Path(__file__).parents[1]))
from fleet_facts import make_history, make_report

SCRAPES = 200


class Unasked:
    """Stands where the record is: a scrape reads nothing of it."""


def measure(port):
    """Return the latencies of many scrapes in milliseconds, and the last answer."""
    took = []
    for _ in range(SCRAPES):
        began = time.perf_counter()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read()
        took.append((time.perf_counter() - began) * 1000)
    return sorted(took), text


def describe(name, took):
    print(f"{name}: median {statistics.median(took):.1f} ms, 99 % {took[int(len(took) * 0.99)]:.1f} ms")


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    now = datetime.now(UTC)
    sys.setswitchinterval(SWITCH_SECONDS)
    report = make_report(now, runs=runs, queued_jobs=runs * 10, flag_count=runs // 5, partition_count=30)
    registry = CollectorRegistry()
    collector = ReportCollector(registry, "bench", started_at=now)
    collector.publish(report)
    server = WebServer("127.0.0.1:0", registry, Unasked(), AccessRules())
    took, text = measure(server.port)
    series = sum(1 for line in text.splitlines() if line and not line.startswith(b"#"))
    print(f"{runs} runs, {runs * 10} jobs: {series} series, {len(text)} bytes")
    describe("scrape, daemon at rest", took)

    histories = [make_history(number, now, checkpoint_count=10) for number in range(runs)]
    began = time.perf_counter()
    fleet.sum_up(histories, now)
    print(f"summing up {runs} runs of 10 checkpoints: {(time.perf_counter() - began) * 1000:.0f} ms")

    stop = threading.Event()

    def work():
        while not stop.is_set():
            fleet.sum_up(histories, now)

    busy = threading.Thread(target=work)
    busy.start()
    took, _ = measure(server.port)
    stop.set()
    busy.join()
    describe("scrape, another thread always summing up", took)
    server.close()


if __name__ == "__main__":
    main()
