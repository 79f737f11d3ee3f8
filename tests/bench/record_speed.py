"""Processor seconds of a cycle in which nothing changed: run `python tests/bench/record_speed.py [URL]`.

10,000 active runs with ten checkpoints each are recorded; then a queue of 100,000 jobs is compared with them and
their histories are read, first without and then with what the store remembers.
"""

import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from ckptd.core import progress, tracking
from ckptd.core.model import FileIdentity, RunKey
from ckptd.store.store import Store
from queue_facts import CLUSTER, STATES, at, look, make_checkpoint, make_job, make_scan

RUNNING_COUNT = 10_000
QUEUE_COUNT = 100_000
CHECKPOINT_COUNT = 10


def measure(what, call):
    before = time.process_time()
    result = call()
    print(f"{what:<58} {time.process_time() - before:8.3f} s")
    return result


def make_queue(minutes):
    running = [make_job(number, time_left=at(59) - at(minutes)) for number in range(1, RUNNING_COUNT + 1)]
    waiting = [make_job(number, STATES.PENDING) for number in range(RUNNING_COUNT + 1, QUEUE_COUNT + 1)]
    return look(minutes, *running, *waiting)


def fill(store):
    changes = tracking.compare({}, make_queue(0))
    store.record_jobs(changes)
    store.record_poll(CLUSTER, at(0))
    for known in changes.new:
        number = known.key.job_id
        run = RunKey(CLUSTER, 1000, f"/data/alice/{number}")
        store.assign_run([known.key], run, "alice", "comment", at(0))
        found = [
            make_checkpoint(f"../{number}/step-{step}.pt", identities=(FileIdentity(1, number, step, 1),), step=step)
            for step in range(CHECKPOINT_COUNT)
        ]
        scan = make_scan(0, *found)
        store.record_scan(run, progress.merge_scan((), scan, progress.Writers(owner_uid=1000), at(0)), scan)


def main():
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{folder}/record.db", upgrade=True)
        measure(f"record {RUNNING_COUNT} runs with {CHECKPOINT_COUNT} checkpoints each", lambda: fill(store))
        tracked = measure("read_tracked (at the start)", lambda: store.read_tracked(CLUSTER))
        queue = make_queue(1)
        changes = measure(
            f"compare {QUEUE_COUNT} jobs, {len(tracked)} tracked", lambda: tracking.compare(tracked, queue)
        )
        assert changes.is_empty
        measure("apply", lambda: tracking.apply(tracked, changes))
        measure("record the poll", lambda: store.record_poll(CLUSTER, at(1)))
        read = lambda: store.read_histories(CLUSTER, active_only=True)  # noqa: E731
        first = measure("read_histories (at the start)", read)
        second = measure("read_histories (nothing changed)", read)
        assert first == second
        assert sum(len(history.checkpoints) for history in second) == RUNNING_COUNT * CHECKPOINT_COUNT
        runs = [replace(history).key for history in second]
        measure("record 10,000 unchanged directories", lambda: store.record_unchanged(runs, at(2)))
        measure("list_jobs", lambda: store.list_jobs(at(2)))
        store.close()
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
