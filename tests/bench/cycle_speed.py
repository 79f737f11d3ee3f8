"""What a whole cycle costs when nothing changed: run `python tests/bench/cycle_speed.py [--jobs N] [--running N]`.

A queue of 100,000 jobs, 10,000 of them running with ten checkpoints each on record, comes through the real squeue
source from a stand-in program; no directory is due. Printed for each step: processor seconds of ckptd; at the end
the peak memory, and the ratio of the cycle to `cat` of the same text and to the real squeue where one answers here
with as many jobs.
"""

import argparse
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import pytest
import queue_speed
import record_speed
import sqlalchemy as sa

from ckptd.core import queue
from ckptd.core.model import RunKey, Scan
from ckptd.slurm.programs import Programs
from ckptd.slurm.squeue import SqueueSource
from ckptd.steps import decide, poll, publish, scan
from ckptd.steps.parts import Parts
from ckptd.steps.state import State, begin
from ckptd.store import runs
from ckptd.store.store import Store
from ckptd.store.tables import CheckpointTable
from support import parts

START = datetime.fromtimestamp(queue_speed.START, UTC)


def fill(store, snapshot):
    """Record each running job with a directory and its checkpoints, in bulk: what is measured comes after."""
    changes = queue.compare({}, snapshot)
    keys = {
        known.key.job_id: RunKey(known.key.cluster, known.job.uid, f"/scratch/run{known.key.job_id}")
        for known in changes.new
    }
    store.jobs.record(replace(changes, new=tuple(replace(each, run=keys[each.key.job_id]) for each in changes.new)))
    with store.database.writing() as connection:
        found = runs.find_runs(connection, keys.values())
        for number, key in keys.items():
            rows = [row | {"run_id": found[key], "attempt_id": None} for row in record_speed.make_rows(number)]
            connection.execute(sa.insert(CheckpointTable), rows)


def make_parts(source, store):
    return parts.make_parts(
        "bench",
        source,
        store,
        rules=parts.make_rules(),
        scan_interval=timedelta(hours=1),
        max_poll_age=timedelta(hours=1),
        min_job_duration=timedelta(minutes=10),
    )


def measure(what, call):
    before = queue_speed.own_seconds()
    result = call()
    spent = queue_speed.own_seconds() - before
    print(f"  {what:<36} {spent:7.3f} s")
    return result, spent


def run_cycle(parts, state, now):
    (snapshot, ended), observed = measure(
        "observe: squeue, parse, compare", lambda: poll.observe_queue(parts, state, now)
    )
    _, recorded = measure("record", lambda: poll.record_queue(parts, state, snapshot, ended, now))
    _, looked = measure("look (nothing is due)", lambda: scan.scan_due(parts, state, now))
    _, decided = measure("decide", lambda: decide.decide(parts, state, now))
    _, reported = measure("report", lambda: publish.report(parts, state, now))
    return observed + recorded + looked + decided + reported


class Prepared(NamedTuple):
    """A cluster of which everything is on record, before its first cycle."""

    parts: Parts
    state: State
    write_queue: Callable[[int], None]  # what squeue prints in the cycle of that number
    measure_cat: Callable[[], float]  # processor seconds of `cat` of that text


@contextmanager
def prepare(jobs, running):
    """Record a cluster in a directory that goes in the end."""
    with tempfile.TemporaryDirectory(prefix="ckptd-bench-") as directory, pytest.MonkeyPatch.context() as patch:
        stand_in = Path(directory, "squeue")
        stand_in.write_text(queue_speed.STAND_IN)
        stand_in.chmod(0o755)
        text = Path(directory, "queue.txt")
        environment = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}", "QUEUE_TEXT": str(text)}
        patch.setenv("PATH", environment["PATH"])
        source = SqueueSource(cluster="bench", programs=Programs(timeout_seconds=120, environment=environment))
        store = Store.open(f"sqlite:///{directory}/bench.sqlite3", upgrade=True)
        queue_speed.write_queue(text, jobs, running, 0)
        fill(store, queue_speed.poll_once(source, START)[0])
        parts = make_parts(source, store)
        state = begin(parts, START)
        for watched in state.watchlist.all:
            place = PurePosixPath(watched.key.directory)
            state.watchlist.record_scan(watched.key, Scan(directory=place, scanned_at=START, checkpoints=()), START)
        yield Prepared(
            parts,
            state,
            lambda number: queue_speed.write_queue(text, jobs, running, number),
            lambda: queue_speed.child_seconds(["cat", str(text)], environment),
        )
        store.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--running", type=int, default=10_000)
    parser.add_argument("--cycles", type=int, default=3)
    options = parser.parse_args()
    with prepare(options.jobs, options.running) as prepared:
        for number in range(1, options.cycles + 1):
            prepared.write_queue(number)
            print(f"cycle {number}: {options.jobs} jobs, {options.running} running")
            spent = run_cycle(prepared.parts, prepared.state, START + timedelta(minutes=number))
        cat = prepared.measure_cat()
    print(f"last cycle {spent:.2f} s of processor time, {spent / max(cat, 0.001):.0f} times `cat` of its text")
    real = queue_speed.real_squeue_seconds(options.jobs)
    print(f"ratio to the real squeue: {spent / real:.2f}" if real else "no real squeue with so many jobs answers here")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
