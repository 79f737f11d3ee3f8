"""What a step of pruning costs: run `python tests/bench/prune_speed.py [--runs N] [--checkpoints N] [--owners N]`.

10,000 runs with ten checkpoints each are on record; first no rule lets anything go, then each run has some that a
policy would only show. Their directories do not exist: what is measured is the daemon, with its real agent. Printed
for each step: processor seconds of the daemon and of the agent's children, the time on the wall, and the longest time
that anything else had to wait for the state's lock; then ratios to planning alone.
"""

import argparse
import resource
import sys
import tempfile
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import cycle_speed
import sqlalchemy as sa

from ckptd.core import queue, retention
from ckptd.core.model import (
    Checkpoint,
    CheckpointState,
    FileIdentity,
    Job,
    JobState,
    Level,
    QueueSnapshot,
    RecordedCheckpoint,
    RunKey,
    Scan,
)
from ckptd.core.model.records import ScanRecord
from ckptd.core.rows.stored_checkpoints import RowContext, checkpoint_to_row
from ckptd.service.agent_start import start_agent
from ckptd.service.step_table import make_runner
from ckptd.steps.prune import SitePolicy, planning, step
from ckptd.steps.state import begin
from ckptd.store import runs
from ckptd.store.store import Store
from ckptd.store.tables import AttemptTable, CheckpointTable
from support.parts import LIMITS

NOW = datetime.now(UTC)


def make_snapshot(count, owners):
    jobs = tuple(
        Job(
            cluster="bench",
            job_id=number,
            user=f"user{number % owners}",
            uid=50_000 + number % owners,
            state=JobState.RUNNING,
            started_at=NOW - timedelta(days=1),
            submitted_at=NOW - timedelta(days=1),
            time_limit=timedelta(days=5),
            ends_at=NOW + timedelta(days=4),
            time_left=timedelta(days=4),
            work_dir=PurePosixPath(f"/scratch/user{number % owners}"),
        )
        for number in range(1, count + 1)
    )
    return QueueSnapshot(cluster="bench", polled_at=NOW, jobs=jobs)


def fill(store, snapshot, per_run):
    """Record every run as a daemon would have that saw its job write each checkpoint, in bulk."""
    changes = queue.compare({}, snapshot)
    keys = {
        known.key.job_id: RunKey("bench", known.job.uid, f"{known.job.work_dir}/run{known.key.job_id}")
        for known in changes.new
    }
    store.jobs.record(replace(changes, new=tuple(replace(each, run=keys[each.key.job_id]) for each in changes.new)))
    store.clusters.record_poll("bench", NOW)
    with store.database.writing() as connection:
        found = runs.find_runs(connection, keys.values())
        attempts = {row[0]: row[1] for row in connection.execute(sa.select(AttemptTable.run_id, AttemptTable.id))}
        for key in keys.values():
            owned = {"run_id": found[key], "attempt_id": attempts[found[key]]}
            rows = [
                checkpoint_to_row(each, RowContext(key.directory, key.uid)) | owned for each in make_saves(key, per_run)
            ]
            connection.execute(sa.insert(CheckpointTable), rows)
    store.checkpoints.record_scans([ScanRecord(run=key, scan=make_scan(key, per_run)) for key in keys.values()])
    return keys.values()


def make_saves(key, count):
    directory = PurePosixPath(key.directory)
    for number in range(count):
        at = NOW - timedelta(hours=3 + count - number)
        found = Checkpoint(
            path=directory / f"step-{number}.pt",
            format="torch",
            files=(f"step-{number}.pt",),
            identities=(FileIdentity(1, number, 10, int(at.timestamp() * 1e9)),),
            owner_uids=frozenset({key.uid}),
            size_bytes=10,
            modified_at=at,
            state=CheckpointState.COMPLETE,
            level=Level.STRUCTURE,
            step=number,
            name_step=number,
        )
        yield RecordedCheckpoint(checkpoint=found, first_seen_at=at, completed_at=at)


def make_scan(key, per_run):
    found = tuple(each.checkpoint for each in make_saves(key, per_run))
    return Scan(directory=PurePosixPath(key.directory), scanned_at=NOW, checkpoints=found)


def make_site(mode, *rules):
    policy = retention.Policy(name="bench", rules=rules, mode=mode)
    return SitePolicy(
        matches=(retention.PolicyMatch(policy=policy),),
        bounds=retention.Bounds(),
        caps=retention.Caps(),
        guards=retention.Guards(),
        interval=timedelta(minutes=5),
        hold=timedelta(days=7),
        no_room_hold=None,
        deadline=timedelta(seconds=60),
        look_deadline=timedelta(seconds=60),
        verify_deadline=timedelta(seconds=60),
        allowed_roots=(PurePosixPath("/scratch"),),
    )


class Waiter(threading.Thread):
    """Somebody else who needs the state's lock now and then, as the poll does."""

    def __init__(self, lock):
        super().__init__(daemon=True)
        self.lock = lock
        self.longest = 0.0
        self.is_over = threading.Event()

    def run(self):
        while not self.is_over.wait(0.01):
            before = time.monotonic()
            with self.lock:
                self.longest = max(self.longest, time.monotonic() - before)

    def end(self):
        self.is_over.set()
        self.join()
        return self.longest


def seconds(who):
    found = resource.getrusage(who)
    return found.ru_utime + found.ru_stime


def measure(what, state, call):
    waiter = Waiter(state.record_lock)
    waiter.start()
    own, wall = time.process_time(), time.monotonic()
    result = call()
    own, wall = time.process_time() - own, time.monotonic() - wall
    print(f"  {what:<44} {own:7.2f} s of processor {wall:7.2f} s on the wall, lock waits {waiter.end():.3f} s")
    return result, own


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--checkpoints", type=int, default=10, help="of each run")
    parser.add_argument("--owners", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ckptd-bench-") as directory:
        agent = start_agent(None, is_person=True)
        store = Store.open(f"sqlite:///{directory}/bench.sqlite3", upgrade=True)
        fill(store, make_snapshot(options.runs, options.owners), options.checkpoints)
        limits = replace(LIMITS, deadline=timedelta(seconds=60))
        runner = make_runner(poll=lambda _parts, _state: None)
        parts = replace(cycle_speed.make_parts(None, store), agent=agent, limits=limits, runner=runner)
        state = begin(parts, NOW)
        memory = step.PruneSlice()
        print(f"{options.runs} runs of {options.owners} owners, {options.checkpoints} checkpoints each")
        idle = make_site(retention.PolicyMode.ENFORCE, retention.KeepLast(1000))
        shown = make_site(retention.PolicyMode.PLAN, retention.KeepLast(2))
        spent = {}
        for number, (what, site) in enumerate(
            [("first step: every trash is settled", idle), *[("nothing to do", idle)] * 3, *[("only shown", shown)] * 2]
        ):
            at = timedelta(minutes=5 * number)
            _, spent[what] = measure(
                what, state, lambda at=at, site=site: step.act(parts, state, site, memory, NOW + at, at)
            )
        going = memory.pruned.going["plan"].count
        assert going == options.runs * max(options.checkpoints - 2, 0), going
        facts, reading = measure("reading the facts alone", state, lambda: planning.read_facts(store, "bench", idle))
        _, planned = measure("planning alone", state, lambda: planning.plan_if_fresh(facts, NOW))
        agent.close()
        print(f"  the agent and its children: {seconds(resource.RUSAGE_CHILDREN):.2f} s of processor in all")
        idle_seconds = spent["nothing to do"]
        print(f"a step with nothing to do: {idle_seconds:.2f} s, {idle_seconds / planned:.1f} times planning alone,")
        print(f"  {idle_seconds / (reading + planned):.1f} times reading and planning; aim: below 2 s at 10,000 runs")
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
        store.close()


if __name__ == "__main__":
    main()
