"""Milliseconds for pages and documents with 10,000 runs of 100,000 jobs: `python tests/bench/pages_speed.py [URL]`.

Jobs that have not started are no part of the record, so that 10,000 of the 100,000 are listed. Each address is asked
ten times over HTTP; the first picture of the fleet, which somebody waits for after a minute of silence, is told apart.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import httpx

from bench.record_speed import CLUSTER, RUNNING_COUNT, fill
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Finding, Flag, RunKey, Severity
from ckptd.metrics.collector import ReportCollector
from ckptd.service.web_record import build_record
from ckptd.store.store import Store
from ckptd.web.access import AccessRules
from ckptd.web.query import run_address
from ckptd.web.server import WebServer
from support.queue_facts import at

FLAG_COUNT = 1000
RUN = "/run" + run_address(RunKey(CLUSTER, 1000, "/data/alice/77"))
ADDRESSES = [
    "/",
    "/?sort=time_left&q=77",
    "/?offset=9000",
    "/flags",
    "/api/v1/runs",
    RUN,
    "/users/alice",
    "/api/v1/jobs",
    "/api/v1/jobs?limit=1000",
    "/api/v1/flags",
    "/api/v1" + RUN,
    "/metrics",
]


def flag_some(store):
    flags = []
    for number in range(1, FLAG_COUNT + 1):
        run = RunKey(CLUSTER, 1000, f"/data/alice/{number}")
        finding = Finding(
            rule="at-risk",
            severity=list(Severity)[number % 3],
            run=run,
            job_id=number,
            user="alice",
            evidence={"n": number},
            recorded_advice="Save sooner.",
        )
        flags.append(Flag(finding=finding, opened_at=at(0)))
    store.flags.record(FlagChanges(opened=tuple(flags)), at(0))


def measure(client, address):
    durations = []
    for _ in range(10):
        began = time.perf_counter()
        answer = client.get(address, timeout=60)
        durations.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, answer.text
    print(f"{address[:60]:<60} {statistics.median(durations):7.1f} ms, at most {max(durations):7.1f} ms")


def main():
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{folder}/record.db", upgrade=True)
        fill(store)
        flag_some(store)
        server = WebServer(
            "127.0.0.1:0", ReportCollector("bench", started_at=at(0)).exposition, build_record(store), AccessRules()
        )
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}") as client:
            began = time.perf_counter()
            total = client.get("/api/v1/jobs?limit=1", timeout=120).json()["total"]
            assert total == RUNNING_COUNT, total
            print(f"{'the first picture of the fleet':<60} {(time.perf_counter() - began) * 1000:7.1f} ms")
            for address in ADDRESSES:
                measure(client, address)
        server.close()
        store.close()


if __name__ == "__main__":
    main()
