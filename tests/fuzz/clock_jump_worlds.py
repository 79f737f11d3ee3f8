"""Daemons whose host's clock is set while they run: the part of clock_jump.py that runs in the emulated host.

It sets the clock of the host that it runs on, and refuses to where the kernel was not started for that.
"""

import io
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "daemon"), str(HERE.parents[1] / "deploy")]

import numpy as np  # noqa: E402

from demo import users  # noqa: E402
from demo.patience import Deadline, allow  # noqa: E402
from support import quick_retention  # noqa: E402
from support.emulated_host import MARK  # noqa: E402
from support.real_daemon import RealDaemon  # noqa: E402
from support.simulated_slurm import SimulatedSlurm  # noqa: E402

AHEAD, BACK, DAYS = timedelta(hours=3), timedelta(hours=-3), timedelta(days=2)
LIVES = ((AHEAD, BACK, DAYS), (AHEAD,), (BACK,), (DAYS,))
SETTINGS = """
[scan]
interval = "5s"
write_grace = "1s"
inotify = false
allowed_roots = ["{root}/home"]
[health]
min_job_duration = "1s"
[health.rules.checkpoint-overdue]
min_age = "20s"
"""
SOURCE = 'source = "squeue"\ncluster = "lab"\n'
POLL_SECONDS = 15  # so that a slow answer on a busy host makes polls no rarer
SAVE_SECONDS = 12.0
FIRST_SAVES = 5  # of the job that then hangs
WATCH_SECONDS = 75.0  # after each jump
MAX_SILENT_POLLS = 4  # intervals after a jump, within which the next poll is seen
SECONDS_TO_SEE = 8.0  # until the page shows a step
SECONDS_TO_STOP = 10.0
START_SECONDS = 240.0
INTERVALS = {"poll": POLL_SECONDS, "decide": 1, "publish": 5, "housekeeping": 30, "prune": 1}
EXTRA_RUNS = 4  # of one step after a jump: it runs at once, and one may have been due


def wait_for(what, holds, seconds):
    deadline = Deadline(seconds)
    while not holds():
        if deadline.has_passed():
            raise RuntimeError(f"{what} did not happen within {deadline.elapsed:.0f} s")
        time.sleep(0.5)


class Jobs:
    """Three jobs that save regularly, one that has stopped, and one that waits."""

    def __init__(self, root, name):
        self._root = root
        self._user = users.create_user(name, root / "home" / name)
        self.slurm = SimulatedSlurm(root / "slurm")
        self.saved = {}  # by directory: the files' paths in their order
        self._is_over = threading.Event()
        self._running = [self._begin(f"train-{number}") for number in range(3)]
        self._hung = self._begin("hung")
        self.slurm.submit(self._user, self._user.home)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def saved_first(self):
        """The checkpoints of one job that saves regularly."""
        return self.saved[self._running[0]]

    def _begin(self, name):
        directory = self._user.home / name / "ckpt"
        directory.mkdir(parents=True)
        (directory.parent / ".ckptd.toml").write_text('directory = "ckpt"\n')
        for path in (directory.parent, directory):
            os.chown(path, self._user.uid, self._user.gid)
        number = self.slurm.submit(self._user, directory.parent, TimeLimit="30-00:00:00")
        self.slurm.start(number)
        end = str(int(time.time()) + 30 * 86400)  # later than every jump
        self.slurm.change(number, EndTime=end)
        self.saved[directory] = []
        return directory

    def _work(self):
        while not self._is_over.wait(SAVE_SECONDS):
            for each in (*self._running, self._hung):
                if each != self._hung or len(self.saved[each]) < FIRST_SAVES:
                    self._save(each)

    def _save(self, directory):
        epoch = len(self.saved[directory]) + 1
        data = io.BytesIO()
        np.savez(data, **{"opt/mu": np.arange(10.0)}, weights=np.arange(100.0), epoch=epoch)
        path = directory / f"epoch_{epoch}.npz"
        new = directory / f".{path.name}"
        new.write_bytes(data.getvalue())
        os.chown(new, self._user.uid, self._user.gid)
        new.rename(path)
        self.saved[directory].append(path)

    def close(self):
        self._is_over.set()
        self._thread.join()


class World:
    """One daemon, its jobs and its database."""

    def __init__(self, root, name, *, is_pruning):
        self.jobs = Jobs(root, name)
        self._is_pruning = is_pruning
        grace = "1s" if is_pruning else "2h"
        settings = SETTINGS.format(root=root) + quick_retention.format_settings(hold="2h", grace=grace)
        self._database = root / "ckptd.sqlite3"
        self.daemon = RealDaemon(
            root / "state",
            f"sqlite:///{self._database}",
            settings,
            source=SOURCE,
            environment=self.jobs.slurm.environment,
            poll_interval=f"{POLL_SECONDS}s",
        )
        self.wrong = []

    def ask(self, statement):
        with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)) as connection:
            return connection.execute(statement).fetchall()

    def read_flags(self):
        rows = self.ask(
            "SELECT f.id, f.rule, f.job_id, r.directory, f.resolved_at FROM flags f JOIN runs r ON r.id = f.run_id"
        )
        return {number: (rule, job, Path(place).parent.name, end) for number, rule, job, place, end in rows}

    def count_removals(self):
        """Return how many checkpoints were moved to the trash, deleted from it, or restored, by action."""
        return Counter(action for (action,) in self.ask("SELECT action FROM audit WHERE outcome IS NOT NULL"))

    def read_steps(self):
        """Return how often each step has run so far."""
        return {name: self.daemon.read_step_count(name) or 0 for name in INTERVALS}

    def find_agent(self):
        """Return the process id of the daemon's agent."""
        found = subprocess.run(
            ["pgrep", "-P", str(self.daemon.process.pid), "-f", "agent"], capture_output=True, text=True, check=False
        )
        return found.stdout.split()

    def start(self):
        self.daemon.start()
        wait_for("the first poll", lambda: self.read_steps()["poll"] > 0, START_SECONDS)
        hung = ("checkpoint-overdue", "hung")
        wait_for(
            "the flag of the job that hangs",
            lambda: hung in {(rule, place) for rule, _, place, end in self.read_flags().values() if end is None},
            START_SECONDS,
        )
        if self._is_pruning:  # which polls by itself before each removal, and so puts off the step
            wait_for("a removal", lambda: self.count_removals()["prune"] > 0, START_SECONDS)
        else:
            wait_for("regular polls", self._is_polling, START_SECONDS)  # after slow ones, Slurm is spared

    def _is_polling(self):
        before = self.read_steps()["poll"]
        time.sleep(3 * POLL_SECONDS)
        return self.read_steps()["poll"] - before >= 2

    def watch(self, jump):
        """Set the clock, and compare what the daemon does from then on with what it did before."""
        saved = len(self.jobs.saved_first)
        # so that scans after the jump find no newer one for a while
        wait_for("a save", lambda: len(self.jobs.saved_first) > saved, START_SECONDS)
        flags, removals, agent = self.read_flags(), self.count_removals(), self.find_agent()
        began, steps = time.monotonic(), self.read_steps()
        set_clock(jump)
        # the next poll may have begun before
        wait_for("a poll after the jump", lambda: self.read_steps()["poll"] > steps["poll"] + 1, WATCH_SECONDS)
        first = time.monotonic() - began
        if first > allow(MAX_SILENT_POLLS * POLL_SECONDS + SECONDS_TO_SEE):
            self.note(jump, f"the second poll after the jump was seen only after {first:.0f} s")
        time.sleep(max(0.0, WATCH_SECONDS - first))
        took, now = time.monotonic() - began, self.read_steps()
        counts = {name: now[name] - steps[name] for name in INTERVALS}
        for name, count in counts.items():
            if count > took / INTERVALS[name] + EXTRA_RUNS + SECONDS_TO_SEE / INTERVALS[name]:
                self.note(jump, f"{name} ran {count:.0f} times in {took:.0f} s")
        # not counted by the interval: where this host is slow, so is Slurm, and the daemon then polls more rarely
        wait_for("the third poll after the jump", lambda: self.read_steps()["poll"] > steps["poll"] + 2, START_SECONDS)
        age = time.time() - (self.daemon.read_metric("ckptd_last_poll_timestamp_seconds") or 0)
        if not -1 < age < allow(MAX_SILENT_POLLS * POLL_SECONDS + SECONDS_TO_SEE):
            self.note(jump, f"the last poll is {age:.0f} s old")
        self._compare(jump, flags, removals, agent)
        print(f"jump {jump}: second poll after {first:.1f} s; steps in {took:.0f} s: {counts}", flush=True)

    def _compare(self, jump, flags, removals, agent):
        now = self.read_flags()
        for number, (rule, job, place, end) in now.items():
            if number not in flags:
                self.note(jump, f"the flag {rule} of job {job} ({place}) opened")
            elif end is not None and flags[number][-1] is None:
                self.note(jump, f"the flag {rule} of job {job} ({place}) was resolved")
        more = self.count_removals() - removals
        if self._is_pruning:  # what the policy removes at any time is not kept by a jump; nothing leaves the trash
            del more["prune"]
        if more:
            self.note(jump, f"removed since: {dict(more)}")
        if self.find_agent() != agent or len(agent) != 1:
            self.note(jump, f"the agent was {agent} and is {self.find_agent()}")
        for paths in self.jobs.saved.values():
            kept = paths[-2:] if self._is_pruning else paths
            self.wrong += [f"{path} is gone" for path in kept if not path.exists()]

    def stop(self, jump):
        """End the daemon as systemd does."""
        began = time.monotonic()
        self.daemon.process.send_signal(signal.SIGTERM)
        try:
            status = self.daemon.process.wait(allow(60))
        except subprocess.TimeoutExpired:
            status = "no end"
        took = time.monotonic() - began
        print(f"SIGTERM after {jump}: status {status} after {took:.1f} s", flush=True)
        if status != 0 or took > allow(SECONDS_TO_STOP):
            self.note(jump, f"SIGTERM: status {status} after {took:.1f} s")

    def note(self, jump, text):
        self.wrong.append(f"{jump}: {text}")

    def close(self):
        self.jobs.close()
        self.daemon.process.kill()


def set_clock(jump):
    """Set the clock of this host, which is the emulated one, as an administrator does."""
    wanted = datetime.now(UTC) + jump
    subprocess.run(["date", "--utc", "-s", f"{wanted:%Y-%m-%d %H:%M:%S.%f}"], check=True, stdout=subprocess.DEVNULL)


def run_life(number, jumps):
    """Run one daemon through its jumps; return what is wrong."""
    root = Path(tempfile.mkdtemp(prefix=f"life-{number}-"))
    root.chmod(0o755)
    (root / "home").mkdir()
    is_pruning = len(jumps) > 1
    world = World(root, f"{users.PREFIX}clock{number}", is_pruning=is_pruning)
    try:
        world.start()
        if is_pruning:  # a second start soon after: nothing but the jump pauses the trash
            world.stop("no jump")
            world.start()
        for jump in jumps:
            world.watch(jump)
        world.stop(jumps[-1])
    except RuntimeError as error:
        world.wrong.append(str(error))
    finally:
        world.close()
    print(
        "\n".join([*world.daemon.read_log().splitlines()[-40:], *(f"wrong: {each}" for each in world.wrong)]),
        flush=True,
    )
    return world.wrong


def main():
    if MARK not in Path("/proc/cmdline").read_text().split():
        sys.exit("this sets the clock, and runs only in the host that clock_jump.py emulates")
    wrong = []
    for number, jumps in enumerate(LIVES):
        print(f"life {number}: {', '.join(map(str, jumps))}", flush=True)
        wrong += run_life(number, jumps)
    print(f"{len(LIVES)} daemons, {sum(map(len, LIVES))} jumps, {len(wrong)} wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
