"""What a first start costs for each run: `python tests/bench/first_start_speed.py [--runs N] [--owners N] [--url URL]`.

Jobs of which nothing is on record run; each names a directory that holds some checkpoints. An agent's stand-in has its
answers ready, so that what is measured is what ckptd does with them: the directories are found, then scanned, then
scanned again with nothing changed. Printed are processor seconds, which a busy machine blurs least.
"""

import argparse
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).parent.parent))

from ckptd.checkpoints.agent import scan_json
from ckptd.steps import decide, poll, scan
from ckptd.steps.state import begin
from ckptd.store.store import Store
from steps.daemon_lives import Cluster
from support.parts import make_parts, make_rules
from support.queue_facts import CLUSTER, at, make_checkpoint, make_job, make_scan
from support.whole_answers import WholeAnswers


def make_cluster(runs, owners):
    cluster = Cluster()
    cluster.jobs = tuple(
        make_job(number, uid=1000 + number % owners, work_dir=PurePosixPath(f"/home/{number}"))
        for number in range(1, runs + 1)
    )
    return cluster


class Disk(WholeAnswers):
    """Answers for the agent; each scan is made and encoded before anything is measured."""

    def __init__(self, jobs, checkpoint_count):
        self._scans = {}
        for job in jobs:
            place = PurePosixPath(f"/data{job.work_dir}")
            found = [
                replace(make_checkpoint(f"step-{step}.pt", step - 300, step=step), path=place / f"step-{step}.pt")
                for step in range(checkpoint_count)
            ]
            seen = make_scan(0, *found, directory=place, fingerprint=f"of {place}")
            self._scans[str(place)] = scan_json.encode_scan(seen)

    def run(self, batches):
        return [[self.answer(batch, item) for item in batch.items] for batch in batches]

    def answer(self, batch, item):
        if batch.operation == "locate":
            return {
                "directory": f"/data{item['work_dir']}",
                "located_by": "comment",
                "user_settings": {},
                "problems": [],
                "entry_count": 0,
                "unread_count": 0,
            }
        return self._scans[item["directory"]]


def measure(what, runs, call):
    before = time.process_time()
    result = call()
    spent = time.process_time() - before
    print(f"{what:<40} {spent:8.2f} s, {spent / runs * 1000:6.2f} ms a run")
    return result


def look_at_all(parts, state, now):
    while scan.scan_due(parts, state, now):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--owners", type=int, default=50)
    parser.add_argument("--checkpoints", type=int, default=10, help="in each directory")
    parser.add_argument("--url")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ckptd-bench-") as folder:
        store = Store.open(options.url or f"sqlite:///{folder}/record.db", upgrade=True)
        cluster = make_cluster(options.runs, options.owners)
        disk = Disk(cluster.jobs, options.checkpoints)
        parts = make_parts(CLUSTER, cluster, store, disk, rules=make_rules())
        state = begin(parts, at(0))
        snapshot, ended = poll.observe_queue(parts, state, at(0))
        measure("record the queue", options.runs, lambda: poll.record_queue(parts, state, snapshot, ended, at(0)))
        measure("find and scan every directory", options.runs, lambda: look_at_all(parts, state, at(0)))
        measure("decide", options.runs, lambda: decide.decide(parts, state, at(0)))
        measure("scan again, nothing changed", options.runs, lambda: look_at_all(parts, state, at(6)))
        store.close()
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main()
