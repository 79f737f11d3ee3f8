"""Makes the jobs, directories and checkpoints of a cluster of any shape, with users of their own, in a directory.

The files are whole and old, so that a scan of them leads to the same result again.
"""

import argparse
import json
import os
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path

from demo import users
from support.simulated_slurm import FIELDS

PRINTER = Path(__file__).with_name("queue_printer.py")
HEADER = b'{"__metadata__":{"step":"%d"},"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
HOUR = 3600


@dataclass(frozen=True)
class Shape:
    """How large a world is."""

    running_count: int
    waiting_count: int
    files_each: int  # in each directory
    user_count: int
    is_array: bool = False  # the running jobs are tasks of one array, which save into one directory

    @property
    def directory_count(self):
        return 1 if self.is_array else self.running_count

    @property
    def file_count(self):
        return self.directory_count * self.files_each

    @classmethod
    def parse(cls, text):
        """Return the shape of `RUNNING,WAITING,FILES,USERS[,array]`."""
        *numbers, last = text.split(",")
        is_array = last == "array"
        try:
            counts = [int(each) for each in (numbers if is_array else [*numbers, last])]
            return cls(*counts, is_array=is_array)
        except (TypeError, ValueError):
            raise argparse.ArgumentTypeError(f"{text!r} is not RUNNING,WAITING,FILES,USERS[,array]") from None


@dataclass
class World:
    """A made world. `close` removes its users; its directory is the caller's."""

    folder: Path
    shape: Shape
    users: list = field(default_factory=list)
    directories: list = field(default_factory=list)

    def close(self):
        for user in self.users:
            users.remove_user(user.name)

    @property
    def environment(self):
        return {"PATH": f"{self.folder / 'slurm/bin'}:{os.environ['PATH']}"}

    def save(self, number, step):
        """Write one more checkpoint into a directory, as a job does."""
        directory, user = self.directories[number], self.users[number % len(self.users)]
        path = directory / f"step_{step}.safetensors"
        new = directory / f".{path.name}"
        _write(new, step, user)
        new.rename(path)
        return path


def make_world(folder, shape):
    """Make a world in an empty directory that every user can enter."""
    world = World(folder, shape)
    names = [f"{users.PREFIX}grow{number}" for number in range(shape.user_count)]
    world.users = [users.create_user(name, folder / "home" / name) for name in names]
    for number in range(shape.directory_count):
        user = world.users[number % shape.user_count]
        directory = user.home / f"run-{number}"
        directory.mkdir()
        _fill(directory, shape.files_each, user)
        world.directories.append(directory)
    _make_queue(world)
    return world


def _fill(directory, count, user):
    began = time.time() - 24 * HOUR
    gap = 20 * HOUR / max(count, 1)
    for step in range(count):
        path = directory / f"step_{step}.safetensors"
        _write(path, step, user)
        os.utime(path, (began + step * gap,) * 2)
    os.utime(directory, (began + 20 * HOUR,) * 2)
    os.chown(directory, user.uid, user.gid)


def _write(path, step, user):
    head = HEADER % step
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(descriptor, struct.pack("<Q", len(head)) + head + bytes(16))
        os.fchown(descriptor, user.uid, user.gid)
    finally:
        os.close(descriptor)


def _make_queue(world):
    slurm = world.folder / "slurm"
    (slurm / "bin").mkdir(parents=True)
    slurm.chmod(0o777)  # where each user's call of squeue keeps what it prints
    (slurm / "bin/squeue").write_text(f"#!/usr/bin/python3 -IS\n{PRINTER.read_text()}")
    answer = "Configuration data as of now\nClusterName = lab\nSlurmctld(primary) at host is UP"
    (slurm / "bin/scontrol").write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    (slurm / "bin/sacct").write_text('#!/bin/sh\necho "Slurm accounting storage is disabled" >&2\nexit 1\n')
    for name in ("squeue", "scontrol", "sacct"):
        (slurm / "bin" / name).chmod(0o755)
    now = int(time.time())
    with (slurm / "jobs").open("w") as file:
        for number in range(world.shape.running_count + world.shape.waiting_count):
            file.write(json.dumps(_make_job(world, number, now)) + "\n")


def _make_job(world, number, now):
    shape, user = world.shape, world.users[number % len(world.users)]
    is_running = number < shape.running_count
    directory = world.directories[0 if shape.is_array else number] if is_running else user.home
    owner = world.users[0] if shape.is_array and is_running else user
    times = {
        "SubmitTime": str(now - 26 * HOUR),
        "StartTime": str(now - 25 * HOUR) if is_running else "N/A",
        "EndTime": str(now + 23 * HOUR) if is_running else "N/A",
        "TimeLimit": "2-00:00:00",
        "TimeLeft": "23:00:00" if is_running else "2-00:00:00",
    }
    array = {"ArrayJobID": "1000", "ArrayTaskID": str(number)} if shape.is_array and is_running else {}
    return {
        **FIELDS,
        "JobID": str(1000 + number),
        "ArrayJobID": str(1000 + number),
        "UserName": owner.name,
        "UserID": str(owner.uid),
        "WorkDir": str(owner.home),
        "Name": f"train-{number % 50}",
        "Comment": f"ckpt={directory}" if is_running else "(null)",
        "State": "RUNNING" if is_running else "PENDING",
        "Reason": "None" if is_running else "Priority",
        "NodeList": f"n{number % 1000}" if is_running else "",
        **times,
        **array,
    }
