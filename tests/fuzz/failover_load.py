"""Jobs that two daemons resubmit, hold, prune and send mail about, and the judgement of what they did."""

import io
import json
import os
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
from aiosmtpd.controller import Controller

from demo import ports, users
from demo.patience import Deadline
from fuzz import message_check
from support import quick_retention
from support.mail_server import Inbox
from support.simulated_slurm import SimulatedSlurm

SETTINGS = """
[scan]
interval = "1s"
write_grace = "1s"
inotify = false
allowed_roots = ["{root}/home"]
[health]
min_job_duration = "1s"
[actions]
hold = ["main"]
resubmit = ["main"]
min_loss = "1s"
max_per_hour = 100000
[mail]
mode = "on"
sender = "ckptd@example.org"
recipient = "{{user}}@example.org"
relays = ["127.0.0.1:{relay}"]
security = "none"
critical_window = "1s"
warning_window = "2s"
info_window = "3s"
max_per_minute = 100000
max_per_user = 100000
max_per_hour = 100000
"""
SOURCE = 'source = "squeue"\ncluster = "lab"\n'
WANTED = 'directory = "ckpt"\nresubmit = true\nmax_resubmits = 1\n'
TRAININGS, LOOPS = 4, 3  # jobs of each kind at the same time
EPOCHS = 5
STEP_SECONDS = 0.25
PATIENCE_SECONDS = 240.0  # for what is due at the end
CUT_OFF = "cut off"


class Load:
    """Jobs of two users on a simulated Slurm, from `start` to `finish`."""

    def __init__(self, root):
        self.root = root
        self.slurm = SimulatedSlurm(root / "slurm")
        (root / "home").mkdir()
        names = [f"{users.PREFIX}f{os.getpid()}{letter}" for letter in "ab"]
        self._users = [users.create_user(name, root / "home" / name) for name in names]
        self._inbox = Inbox()
        self._relay = Controller(self._inbox, hostname="127.0.0.1", port=ports.find_free_ports(1)[0])
        self._relay.start()
        settings = SETTINGS.format(root=root, relay=self._relay.port)
        self.settings = settings + quick_retention.format_settings(hold="5s")
        self.saved = {}  # by directory: the bytes of each file
        self.timed_out = {}  # by number: the directory
        self.looping = []
        self._made = 0
        self.is_given_up = lambda _number: False  # whether the resubmission of a job is recorded as cut off
        self.is_scanned = lambda _directory: True  # whether a scan of a run's directory is on record
        self._is_over = threading.Event()
        self._trouble = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self):
        self._thread.start()

    def finish(self):
        """Begin no further jobs, and wait until the others have ended."""
        self._is_over.set()
        self._thread.join()
        if self._trouble is not None:
            raise self._trouble

    def close(self):
        self._is_over.set()
        self._relay.stop()
        for each in self._users:
            users.remove_user(each.name)

    def _work(self):
        kinds = [(self._train, [None] * TRAININGS), (self._loop, [None] * LOOPS)]
        due = {}
        try:
            while not self._is_over.is_set() or any(job for _, jobs in kinds for job in jobs):
                for make, jobs in kinds:
                    for place, job in enumerate(jobs):
                        if job is None and not self._is_over.is_set():
                            jobs[place] = make()
                        elif job is not None and due.get(job, 0) <= time.monotonic():
                            due.pop(job, None)
                            pause = next(job, None)
                            if pause is None:
                                jobs[place] = None
                            else:
                                due[job] = time.monotonic() + pause
                time.sleep(STEP_SECONDS)
        except Exception as error:  # noqa: BLE001 - shown by `finish`
            self._trouble = error

    def _train(self):
        """Save, reach the time limit, and continue as the job that ckptd submits."""
        user, directory = self._make_directory("train", WANTED)
        number = self.slurm.submit(user, directory.parent)
        yield 1
        self.slurm.start(number)
        yield 2
        self._save(user, directory)
        deadline = Deadline(PATIENCE_SECONDS)
        while not self.is_scanned(directory) and not deadline.has_passed():
            yield 1  # whatever the first scan finds has no proven writer, and is not pruned
        for _ in range(EPOCHS - 1):
            yield 2
            self._save(user, directory)
        yield 2
        self.slurm.end(number, "TIMEOUT")
        self.timed_out[number] = directory
        deadline = Deadline(PATIENCE_SECONDS)
        while not (found := self._find_successor(directory)) and not deadline.has_passed():
            if self._is_over.is_set() and self.is_given_up(number):
                break
            yield 1
        if found:
            self.slurm.start(found)
            yield 2
            self._save(user, directory)
            yield 3
            self.slurm.end(found, "COMPLETED")
        yield 20
        for each in filter(None, (number, found)):
            self.slurm.forget(each)

    def time_out(self):
        """Make a job that saved, and reached its time limit before anybody polled it; return its number."""
        user, directory = self._make_directory("train", WANTED)
        number = self.slurm.submit(user, directory.parent)
        for _ in range(2):
            self._save(user, directory)
        now = int(time.time())
        self.slurm.change(number, State="TIMEOUT", SubmitTime=str(now - 90), StartTime=str(now - 60), EndTime=str(now))
        return number

    def _loop(self):
        """Be requeued again and again without a further save, until ckptd holds the job."""
        user, directory = self._make_directory("loop", 'directory = "ckpt"\n')
        number = self.slurm.submit(user, directory.parent)
        self.looping.append(number)
        deadline = Deadline(2 * PATIENCE_SECONDS)
        count = 0
        while not self.slurm.is_held(number) and not deadline.has_passed():
            self.slurm.start(number, RestartCnt=str(count))
            yield 2
            if not count:
                self._save(user, directory)
            yield 2
            count += 1
            self._requeue(number, count)
            yield 2
        self._requeue(number, count)
        yield 15  # in which a second hold would show
        self.slurm.end(number, "CANCELLED")
        yield 20
        self.slurm.forget(number)

    def _requeue(self, number, count):
        self.slurm.change(number, State="PENDING", RestartCnt=str(count), StartTime="N/A", EndTime="N/A")

    def _make_directory(self, kind, settings):
        self._made += 1
        user = self._users[self._made % len(self._users)]
        directory = user.home / f"{kind}-{self._made}" / "ckpt"
        directory.mkdir(parents=True)
        (directory.parent / ".ckptd.toml").write_text(settings)
        for path in (directory, directory.parent, directory.parent / ".ckptd.toml"):
            os.chown(path, user.uid, user.gid)
        self.saved[directory] = {}
        return user, directory

    def _save(self, user, directory):
        epoch = len(self.saved[directory]) + 1
        data = io.BytesIO()
        np.savez(data, **{"opt/mu": np.arange(10.0)}, weights=np.arange(100.0), epoch=epoch)
        path = directory / f"epoch_{epoch}.npz"
        new = directory / f".{path.name}"
        new.write_bytes(data.getvalue())
        os.chown(new, user.uid, user.gid)
        new.rename(path)
        self.saved[directory][path.name] = data.getvalue()

    def _find_successor(self, directory):
        calls = (call[2:] for call in self.slurm.list_calls() if call[1] == "sbatch")
        return next((int(number) for number, _, path in calls if path == str(directory.parent)), None)

    def judge(self, ask):
        """Return what is wrong, and a summary; `ask` queries the database."""
        return _Judgement(self, self._inbox, ask).give()


class _Judgement:
    """Compares what the stand-ins saw with what should have been done and with the database."""

    def __init__(self, load, inbox, ask):
        self._load = load
        self._ask = ask
        self._inbox = inbox
        self.wrong = []

    def give(self):
        parts = [self._judge_resubmissions(), self._judge_holds(), self._judge_mail(), self._judge_pruning()]
        return self.wrong, "; ".join(parts)

    def _read_audit(self, action):
        rows = self._ask(
            f"SELECT target, outcome, finished_at IS NULL, begun_at FROM audit WHERE action = '{action}' ORDER BY id"
        )
        return {target.removeprefix("job "): (outcome, is_open) for target, outcome, is_open, _ in rows}

    def _tell(self, number):
        """Return what is on record of a job, for whoever has to find out what went wrong."""
        audit = self._ask(
            "SELECT action, plan_id, outcome, begun_at, lease_epoch FROM audit"
            f" WHERE target = 'job {number}' ORDER BY id"
        )
        flags = self._ask(f"SELECT rule, opened_at, evidence FROM flags WHERE job_id = {number} ORDER BY id")
        attempts = self._ask(
            "SELECT a.state, a.restart_count, a.ended_at FROM attempts a JOIN jobs j ON j.id = a.job_row"
            f" WHERE j.job_id = {number}"
        )
        runs = self._ask(
            "SELECT r.directory, r.scanned_at, r.unknown_what, r.problems, r.user_settings FROM runs r"
            f" JOIN jobs j ON j.run_id = r.id WHERE j.job_id = {number}"
        )
        losses = self._ask(
            "SELECT l.is_final, l.ended_at, l.saved_at FROM losses l JOIN attempts a ON a.id = l.attempt_id"
            f" JOIN jobs j ON j.id = a.job_row WHERE j.job_id = {number}"
        )
        calls = [call for call in self._load.slurm.list_calls() if str(number) in map(str, call)]
        return f"audit {audit}, flags {flags}, attempts {attempts}, runs {runs}, losses {losses}, calls {calls}"

    def _judge_resubmissions(self):
        calls = [call for call in self._load.slurm.list_calls() if call[1] == "sbatch"]
        for mark, count in Counter(call[3] for call in calls).items():
            if count > 1:
                self.wrong.append(f"resubmitted {count} times: {mark}")
        done = {call[4] for call in calls}
        audit, cut_off = self._read_audit("resubmit-job"), 0
        for number, directory in self._load.timed_out.items():
            if str(directory.parent) in done:
                continue
            outcome, is_open = audit.get(str(number), ("not on record", False))
            if is_open or (outcome or "").startswith(CUT_OFF):
                cut_off += 1
            else:
                self.wrong.append(f"job {number} was not resubmitted: {outcome}; {self._tell(number)}")
        return f"{len(calls)} of {len(self._load.timed_out)} jobs resubmitted, {cut_off} recorded as cut off"

    def _judge_holds(self):
        counts = Counter(call[2] for call in self._load.slurm.list_calls() if call[1] == "hold")
        for number, count in counts.items():
            if count > 1:
                self.wrong.append(f"job {number} was held {count} times; {self._tell(number)}")
        for number in self._load.looping:
            if str(number) not in counts and not self._load.slurm.is_held(number):
                self.wrong.append(f"job {number} was not held")
        return f"{len(counts)} of {len(self._load.looping)} jobs held"

    def _judge_mail(self):
        rows = self._ask("SELECT message_id, max(try_count) FROM notices WHERE state = 'sent' GROUP BY message_id")
        arrived = message_check.count_arrived(self._inbox.mails)
        tries = {key: count for key, count in rows if key is not None}
        doubled = [key for key, count in arrived.items() if count > 1]
        self.wrong += message_check.list_wrong(tries, arrived)
        told = self._ask("SELECT payload FROM notices WHERE channel = 'mail' AND state = 'sent'")
        payloads = [each if isinstance(each, dict) else json.loads(each) for (each,) in told]
        named = {number for each in payloads if each["rule"] == "restart-loop" for number in each["job_ids"]}
        if unreported := set(self._load.looping) - named:
            self.wrong.append(f"no mail about the loops of jobs {sorted(unreported)}")
        return f"{len(arrived)} messages, {len(doubled)} of them twice after an interruption"

    def _judge_pruning(self):
        rows = self._ask(
            "SELECT action, target, coalesce(outcome, ''), finished_at IS NULL FROM audit"
            " WHERE action IN ('prune', 'restore')"
        )
        # what follows a colon is a reason: a move that a kill cut off and that was finished is a move, too
        results = [(action, target, outcome.partition(":")[0]) for action, target, outcome, _ in rows]
        moved = Counter(target for action, target, result in results if (action, result) == ("prune", "moved"))
        moved.subtract(target for action, target, result in results if (action, result) == ("restore", "restored"))
        if open_count := sum(is_open for *_, is_open in rows):
            self.wrong.append(f"{open_count} removals have no outcome")
        removed = 0
        for directory, files in self._load.saved.items():
            for place, (name, data) in enumerate(files.items()):
                path = Path(directory) / name
                if path.exists():
                    if path.read_bytes() != data:
                        self.wrong.append(f"{path} was changed")
                    continue
                removed += 1
                if place >= len(files) - 2:
                    self.wrong.append(f"{path} is one of the two newest and was removed")
                if moved[str(path)] != 1:
                    found = [row for row in rows if row[1] == str(path)]
                    self.wrong.append(
                        f"{path} is not there, and {moved[str(path)]} removals of it are on record: {found}"
                    )
        if not removed:
            self.wrong.append("nothing was pruned")
        return f"{removed} of {sum(map(len, self._load.saved.values()))} checkpoints pruned"
