"""What an end and a start of a job cost: run `python tests/bench/restart_speed.py [--running N] [--restarts K]`.

N jobs run, each in a directory with so many checkpoints on record. In each round, K of them end, and K others start in
the directories of those that ended in the round before. Printed are the processor seconds of the steps for one end and
one start: to record the poll, where the jobs' checkpoints are, and scans that find nothing new; and to decide after it.
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict, deque
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).parent.parent))

from ckptd.core import health
from ckptd.core.model import JobState, RunKey, Scan
from ckptd.core.model.records import LocationRecord
from ckptd.steps import decide, declared_locations, poll, record_scans
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.state import begin
from ckptd.store.store import Store
from support.checkpoints import make_checkpoint
from support.parts import make_parts
from support.queue_facts import CLUSTER, at, look, make_job

GAP = 20 / 60  # minutes between two polls


class Cluster:
    """The jobs of a queue, and the steps of a daemon that follow them."""

    def __init__(self, store, options):
        self.options = options
        self.jobs = deque()
        self.ended = deque()
        self.last_id, self.minute = 0, 0.0
        self.seconds = defaultdict(float)
        rules = tuple(rule() for name, rule in health.RULES.items() if name not in {"volatile-path", "too-sparse"})
        self.parts = make_parts(
            CLUSTER,
            None,
            store,
            rules=rules,
            poll_interval=timedelta(minutes=GAP),
            scan_interval=timedelta(minutes=5),
            max_poll_age=timedelta(minutes=10),
            min_job_duration=timedelta(minutes=10),
        )
        self.state = begin(self.parts, at(0))

    @contextmanager
    def measure(self, what):
        began = time.process_time()
        yield
        self.seconds[what] += time.process_time() - began

    def start(self, directory):
        self.last_id += 1
        self.jobs.append((make_job(self.last_id, name=f"train-{directory}", started_at=at(self.minute)), directory))

    def end(self):
        job, directory = self.jobs.popleft()
        ended = replace(job, state=JobState.COMPLETED, ends_at=at(self.minute))
        self.ended.append((self.minute, ended, directory))

    def follow(self, *, is_first=False):
        """Run the steps of one poll, and of the scans that follow it."""
        while self.ended and self.ended[0][0] < self.minute - 5:
            self.ended.popleft()
        changed = [place for job, place in self.jobs if job.started_at == at(self.minute)]
        over = [place for minute, _, place in self.ended if minute == self.minute]
        queue = look(self.minute, *(job for job, _ in self.jobs), *(job for _, job, _ in self.ended))
        with self.measure("record the poll"):
            poll.record_queue(self.parts, self.state, queue, (), at(self.minute))
        with self.measure("decide after the poll"):
            decide.decide(self.parts, self.state, at(self.minute))
        with self.measure("record the directories"):
            declared_locations.record_moves(self.parts, self.state, self.list_found(), at(self.minute))
        with self.measure("record the scans"):
            self.scan([*changed, *over], saves=is_first)
        with self.measure("decide after the scans"):
            decide.decide(self.parts, self.state, at(self.minute + 0.1))

    def list_found(self):
        directories = {job.job_id: directory for job, directory in self.jobs}
        found = []
        for known in self.state.latest(PolledQueue).tracked.values():
            if known.run.is_located or known.key.job_id not in directories:
                continue
            where = LocationRecord(
                jobs=(known.key,),
                run=key_of(directories[known.key.job_id], known.job.uid),
                user=known.job.user,
                located_by="comment",
                user_settings={},
                settings_directory="/w",
            )
            found.append((self.state.watchlist.get(known.run), where))
        return found

    def scan(self, directories, *, saves):
        watched = [self.state.watchlist.get(key_of(place, make_job(1).uid)) for place in directories]
        due = [each for each in watched if each is not None]
        now = at(self.minute + 0.05)
        if saves:
            before = record_scans._read_record(self.parts, self.state, due)
            scans = [make_scan(each.key, now, self.options.files) for each in due]
            record_scans._record(self.parts, self.state, [*zip(due, scans, strict=True)], before, now)
        else:
            scans = {each.key: make_scan(each.key, now, 0) for each in due}
            with self.state.recording():
                record_scans._record_rescans(self.parts, self.state, due, scans, now)


def key_of(directory, uid):
    return RunKey(CLUSTER, uid, f"/scratch/{directory}")


def make_scan(key, now, count):
    place = PurePosixPath(key.directory)
    found = [
        make_checkpoint(place / f"step-{number}.pt", at(-number), inode=number, step=1000 - number)
        for number in range(count)
    ]
    return Scan(
        directory=place,
        scanned_at=now,
        checkpoints=tuple(found),
        free_bytes=10**12,
        total_bytes=10**13,
        fingerprint="f",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--running", type=int, default=2000)
    parser.add_argument("--restarts", type=int, default=200, help="ends, and as many starts, in each round")
    parser.add_argument("--files", type=int, default=20, help="checkpoints in each directory")
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ckptd-bench-") as folder:
        store = Store.open(f"sqlite:///{folder}/bench.db", upgrade=True)
        cluster = Cluster(store, options)
        for place in range(options.running):
            cluster.start(place)
        cluster.follow(is_first=True)
        cluster.seconds.clear()
        waiting = deque()
        for _ in range(options.rounds):
            cluster.minute += GAP
            waiting.extend(place for _, place in list(cluster.jobs)[: options.restarts])
            for _ in range(options.restarts):
                cluster.end()
            for _ in range(min(options.restarts, len(waiting) - options.restarts)):
                cluster.start(waiting.popleft())
            cluster.follow()
        store.close()
    count = 2 * options.restarts * options.rounds - options.restarts
    for what, seconds in cluster.seconds.items():
        print(f"{what:<24} {1000 * seconds / count:6.2f} ms for each end or start")
    print(f"{'all':<24} {1000 * sum(cluster.seconds.values()) / count:6.2f} ms")


if __name__ == "__main__":
    main()
