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

import sqlalchemy as sa

from ckptd.core import queue as tracking
from ckptd.core.model import FileIdentity, RunKey
from ckptd.core.model.records import ScanRecord
from ckptd.core.rows.stored_checkpoints import RowContext, checkpoint_to_row
from ckptd.core.runs import ownership, progress
from ckptd.store import runs
from ckptd.store.store import Store
from ckptd.store.tables import CheckpointTable
from support.queue_facts import CLUSTER, RUN, STATES, at, look, make_checkpoint, make_job, make_scan

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
    """Record every run with its directory in one step and its checkpoints in bulk: what is measured is reading."""
    changes = tracking.compare({}, make_queue(0))
    keys = {known.key.job_id: RunKey(CLUSTER, 1000, f"/data/alice/{known.key.job_id}") for known in changes.new}
    store.jobs.record(replace(changes, new=tuple(replace(each, run=keys[each.key.job_id]) for each in changes.new)))
    store.clusters.record_poll(CLUSTER, at(0))
    with store.database.writing() as connection:
        found = runs.find_runs(connection, keys.values())
        for number, key in keys.items():
            rows = [row | {"run_id": found[key], "attempt_id": None} for row in make_rows(number)]
            connection.execute(sa.insert(CheckpointTable), rows)
    store.checkpoints.record_scans(unchanged(keys.values(), 0))


def unchanged(keys, minutes):
    return [ScanRecord(run=key, scan=make_scan(minutes)) for key in keys]


def make_rows(number):
    found = [
        make_checkpoint(f"../{number}/step-{step}.pt", identities=(FileIdentity(1, number, step, 1),), step=step)
        for step in range(CHECKPOINT_COUNT)
    ]
    changes = progress.merge_scan((), make_scan(0, *found), ownership.Writers(owner_uid=1000), at(0))
    return [checkpoint_to_row(known, RowContext(RUN.directory, RUN.uid)) for known in changes.appeared]


def main():
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{folder}/record.db", upgrade=True)
        measure(f"record {RUNNING_COUNT} runs with {CHECKPOINT_COUNT} checkpoints each", lambda: fill(store))
        tracked = measure("read tracked jobs (at the start)", lambda: store.jobs.read_tracked(CLUSTER))
        queue = make_queue(1)
        changes = measure(
            f"compare {QUEUE_COUNT} jobs, {len(tracked)} tracked", lambda: tracking.compare(tracked, queue)
        )
        assert changes.is_empty
        measure("apply", lambda: tracking.apply(tracked, changes))
        measure("record the poll", lambda: store.clusters.record_poll(CLUSTER, at(1)))
        read = lambda: store.histories.read(CLUSTER, active_only=True)  # noqa: E731
        first = measure("read histories (at the start)", read)
        second = measure("read histories (nothing changed)", read)
        assert first == second
        assert sum(len(history.checkpoints) for history in second) == RUNNING_COUNT * CHECKPOINT_COUNT
        keys = [history.key for history in second]
        measure("record 10,000 unchanged directories", lambda: store.checkpoints.record_scans(unchanged(keys, 2)))
        measure("list jobs", lambda: store.jobs.list_open(at(2)))
        store.close()
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
