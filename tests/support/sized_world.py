"""A cluster of any size on this host: directories with real checkpoints, and programs that stand in for its Slurm.

`squeue` prints the queue with the separators that it is asked for, and the time left of running jobs goes on. Each call
of a program adds a line to `requests`. The owners need no accounts: the agent acts as a uid that nobody has. Only root
can give files to them; anybody else owns everything.
"""

import itertools
import json
import os
import struct
import time
from dataclasses import dataclass
from functools import lru_cache

from ckptd.slurm import queue_text
from demo.ports import find_free_ports

FIRST_UID = 61_000_000 if os.geteuid() == 0 else os.geteuid()
FIRST_JOB = 1_000_000
RUNNING_SECONDS = 5 * 3600
LIMIT_SECONDS = 48 * 3600
LIMIT = "2-00:00:00"
PROGRAM = r"""
import os, re, sys, time
name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
root = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0])))
with open(root + "/requests", "a") as requests:
    requests.write(" ".join([name] + arguments) + "\n")
def clock(match):
    left = max(int(match[1]) - int(time.time()), 0)
    return f"{left // 86400}-{left // 3600 % 24:02}:{left // 60 % 60:02}:{left % 60:02}"
if name == "squeue":
    wanted = [part.split(":", 1) for part in arguments[-1].split(",")]
    path = root + "/queue-of-tasks"
    if "--array" not in arguments or not os.path.exists(path):
        path = root + "/queue"
    with open(path) as file:
        fields, text = file.read().split("\n", 1)
    if fields.split(" ") != [field for field, _ in wanted]:
        sys.exit("squeue: error: Unrecognized fields")
    chosen = [each[7:].split(",") for each in arguments if each.startswith("--jobs=")]
    if chosen:
        rows = [row for row in text.split("\x1e\n") if not set(row.split("\x1f")[:2]).isdisjoint(chosen[0])]
        if not rows:
            sys.exit("slurm_load_jobs error: Invalid job id specified")
        text = "".join(row + "\x1e\n" for row in rows)
    text = re.sub("\x1d([0-9]+)", clock, text)
    sys.stdout.write(text.replace("\x1f", wanted[0][1]).replace("\x1e", wanted[-1][1]))
elif name == "scontrol" and arguments[-2:] == ["show", "config"]:
    print(f"Configuration data as of {int(time.time())}\nClusterName = sized\nMinJobAge = 300 sec")
elif name == "scontrol" and arguments == ["ping"]:
    print("Slurmctld(primary) at host is UP")
elif name == "scontrol" and arguments[-1] == "reservation":
    print("No reservations in the system")
else:
    sys.exit("Slurm accounting storage is disabled")
"""
SETTINGS = """
[slurm]
source = "squeue"
cluster = "sized"
backfill = false
[scan]
interval = "{scan_seconds}s"
[health.rules.volatile-path]
enabled = false
[web]
listen = "127.0.0.1:{port}"
[service]
state_directory = "{root}/state"
"""


@dataclass(frozen=True, kw_only=True)
class WorldShape:
    """How many there are of everything. Job n belongs to user n and uses directory n, each modulo their number."""

    jobs: int  # in the queue
    running: int
    users: int
    files: int  # checkpoints in each directory
    directories: int | None = None  # None: one for each running job
    is_array: bool = False  # every job is a task of one array
    is_named: bool = True  # each job names its directory, where it also works

    @property
    def directory_count(self):
        return self.running if self.directories is None else self.directories

    @property
    def file_count(self):
        return self.directory_count * self.files


@lru_cache(maxsize=4096)
def make_checkpoint(step):
    """Return a valid safetensors file that names its step."""
    tensor = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
    head = json.dumps({"__metadata__": {"step": str(step)}, "w": tensor}).encode()
    return struct.pack("<Q", len(head)) + head + bytes(16)


class SizedWorld:
    """The files of one shape below a directory that every user can reach."""

    def __init__(self, root, shape, *, scan_seconds=300):
        self.root, self.shape, self.made_at = root, shape, int(time.time())
        self._newest = {}
        (root / "requests").touch()
        (root / "state").mkdir()
        self.port = find_free_ports(1)[0]
        self.config = root / "config.toml"
        self.config.write_text(SETTINGS.format(port=self.port, root=root, scan_seconds=scan_seconds))
        self._install_programs()
        for number in range(shape.directory_count):
            self._make_directory(number)
        self.write_queue()

    @property
    def environment(self):
        return {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}"}

    def directory(self, number):
        """Return the directory with this number, of at most 1,000 beside it."""
        return self.root / f"runs{number // 1000}/run{number}"

    def uid(self, number):
        return FIRST_UID + number % self.shape.users if os.geteuid() == 0 else FIRST_UID

    def read_requests(self):
        """Return the calls of Slurm's programs since the world was made."""
        return (self.root / "requests").read_text().splitlines()

    def save(self, number, *, keeps_all=False):
        """Save one more checkpoint in a directory, as its job would, and remove the oldest one."""
        directory = self.directory(number)
        step = self._newest.get(number, self.shape.files) + 1
        self._newest[number] = step
        owner = self.uid(number)
        temporary = directory / "saving.tmp"
        temporary.write_bytes(make_checkpoint(step))
        os.chown(temporary, owner, -1)
        temporary.rename(directory / f"step_{step}.safetensors")
        if not keeps_all:
            (directory / f"step_{step - self.shape.files}.safetensors").unlink()

    def add_job(self):
        """Let one more job run, with a directory of its own; return that directory's number."""
        number = self.shape.directory_count
        self._make_directory(number)
        with (self.root / "queue").open("a") as file:
            file.write(self._format_job(self.shape.jobs, is_running=True, directory=number))
        return number

    def write_queue(self):
        shape = self.shape
        running = [
            self._format_job(number, is_running=True, directory=number % shape.directory_count)
            for number in range(shape.running)
        ]
        waiting = range(shape.running, shape.jobs)
        each = (self._format_job(number, is_running=False, directory=0) for number in waiting)
        if shape.is_array and waiting:
            self._write_queue("queue-of-tasks", running, each)
            tasks = f"{waiting.start}-{waiting.stop - 1}"
            each = (self._format_job(shape.jobs, is_running=False, directory=0, tasks=tasks),)
        self._write_queue("queue", running, each)

    def _write_queue(self, name, *rows):
        with (self.root / name).open("w") as file:
            file.write(" ".join(queue_text.FIELDS) + "\n")
            file.writelines(itertools.chain(*rows))

    def _install_programs(self):
        programs = self.root / "bin"
        programs.mkdir()
        for name in ("squeue", "scontrol", "sacct", "sacctmgr"):
            # the project's own Python may be where users cannot read it
            (programs / name).write_text(f"#!/usr/bin/python3 -IS\n{PROGRAM}")
            (programs / name).chmod(0o755)

    def _make_directory(self, number):
        """Write the checkpoints of one directory, saved evenly over the time that its job runs; the newest just now."""
        directory, owner = self.directory(number), self.uid(number)
        directory.mkdir(parents=True)
        gap = RUNNING_SECONDS / (self.shape.files + 1)
        place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        for step in range(1, self.shape.files + 1):
            file = os.open(f"step_{step}.safetensors", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=place)
            os.write(file, make_checkpoint(step))
            saved = self.made_at - 120 - (self.shape.files - step) * gap
            os.utime(file, (saved, saved))
            os.fchown(file, owner, -1)
            os.close(file)
        os.fchown(place, owner, -1)
        os.utime(place, (self.made_at - 120,) * 2)
        os.close(place)

    def _format_job(self, number, *, is_running, directory, tasks=None):
        """Return a line of the queue with 0x1f after each field, 0x1e at the end, and 0x1d before the end of a job."""
        user = number % self.shape.users
        place = self.directory(directory)
        began = self.made_at - RUNNING_SECONDS - number % 3600
        row = dict.fromkeys(queue_text.FIELDS, "N/A") | {
            "JobID": FIRST_JOB + number,
            "ArrayJobID": FIRST_JOB + (self.shape.jobs if self.shape.is_array else number),
            "UserName": f"user{user}",
            "UserID": self.uid(user),
            "Account": f"project{user % 9}",
            "Partition": f"gpu{number % 6}",
            "QOS": "normal",
            "State": "RUNNING" if is_running else "PENDING",
            "Reason": "None" if is_running else "Priority",
            "RestartCnt": number % 3 if is_running else 0,
            "Requeue": 1,
            "TimeLimit": LIMIT,
            "TimeLeft": f"\x1d{began + LIMIT_SECONDS}" if is_running else LIMIT,
            "SubmitTime": began - 90_000,
            "Dependency": "(null)",
            "NodeList": f"node{number % 900}" if is_running else "",
            "BatchHost": f"node{number % 900}" if is_running else "n/a",
            "NumNodes": 1,
            "NumCPUs": 64,
            "BatchFlag": 1,
            "tres-alloc": "cpu=64,mem=250G,node=1,billing=64,gres/gpu=4",
            "NumTasks": 4,
            "Name": f"train-{number % 5000}",
            "WorkDir": place if is_running else f"/scratch/user{user}",
            "Comment": f"ckpt={place}" if is_running and self.shape.is_named else "(null)",
            "Command": f"/home/user{user}/train.sh",
            "admin_comment": "(null)",
        }
        if self.shape.is_array:
            row["ArrayTaskID"] = number if tasks is None else tasks
        if is_running:
            row |= {"StartTime": began, "EndTime": began + LIMIT_SECONDS}
        return "\x1f".join(str(row[name]) for name in queue_text.FIELDS) + "\x1e\n"
