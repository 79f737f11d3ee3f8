"""Kill what prunes with -9 in the middle of checkpoints of 40 files, start it again in any mode, and look at the disk.

    python tests/fuzz/kill_sets.py [--kills 600] [--seed N]

A checkpoint is an index and its shards, or a file of each rank that is complete by itself. Each start is a process of
its own with the real record, agent, scan, planner and trash. After each start, whatever its mode, every checkpoint must
be whole in one place, where it was or in the trash, and no intent may be open. Most of the kills take the agent and its
child along; the others leave it to the agent to end them. It ends with 1 otherwise.
"""

import argparse
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "daemon")]

from ckptd.core.retention import Caps, KeepLast, PolicyMode  # noqa: E402
from ckptd.service.agent_start import start_agent  # noqa: E402
from ckptd.steps.prune import step  # noqa: E402
from support.migrated import get_template  # noqa: E402
from support.prune_facts import START, Workshop, make_policy, make_site, own  # noqa: E402
from support.rank_files import make_ranks  # noqa: E402
from support.tensorflow_table import make_set  # noqa: E402
from support.trash_facts import start_child  # noqa: E402

MEMBERS = 40
SETS = 8  # of one world; two stay
LAYOUTS = (make_ranks, make_set)  # one file of each rank; an index and its shards
MODES = ("plan", "off", "none", "elsewhere", "enforce")
PATIENCE = 60.0


class World:
    """One user's run on a disk of its own, and what was saved in it."""

    def __init__(self, root, make_files):
        self.root = root
        self.directory = root / "home/ckpts"
        self.trash = root / "home/.ckptd-trash"
        self.sets = {step: make_files(step, MEMBERS) for step in range(1, SETS + 1)}
        self.minutes = 0  # of the world's clock
        root.chmod(0o755)
        self.directory.mkdir(parents=True)
        for path in (self.directory, self.directory.parent):
            own(path)

    def train(self):
        """Save every checkpoint while a job runs, and let each be seen."""
        with self._open() as shop:
            shop.start_job()
            for files in self.sets.values():
                shop.wait(30)
                for name, data in files.items():
                    path = self.directory / name
                    path.write_bytes(data)
                    own(path)
                    os.utime(path, (shop.now.timestamp(),) * 2)
                shop.wait(2)
                shop.look()
            return round((shop.now - START) / timedelta(minutes=1)) + 90

    def prune(self, mode, ready, go):
        """Take one step in a mode, say so, and when told one that enforces."""
        with self._open() as shop:
            shop.queue.jobs = (shop.make_job(1, started_at=START, submitted_at=START),)
            shop.now = START + timedelta(minutes=self.minutes)
            shop.site = sites(self.root)[mode]
            shop.act()
            os.write(ready, b"." if all(entry.finished_at for entry in shop.audit()) else b"!")
            os.read(go, 1)
            shop.wait(5)
            shop.memory = step.PruneSlice()  # which runs are worth a look is remembered for a while
            shop.site = sites(self.root)["enforce"]
            shop.act()

    def _open(self):
        return Opened(self.root)

    def find(self):
        """Say where each checkpoint is: "there", "trash", or what is wrong with it."""
        held = {}
        for entry in self.trash.iterdir() if self.trash.exists() else ():
            files = [path.read_bytes() for path in entry.iterdir() if path.name.isdigit()]
            held[entry.name] = (sorted(files), (entry / "moved").exists())
        return {step: self._place(files, held) for step, files in self.sets.items()}

    def _place(self, files, held):
        there = [name for name, data in files.items() if self._holds(name, data)]
        entries = [name for name, (found, is_moved) in held.items() if is_moved and found == sorted(files.values())]
        if len(there) == MEMBERS and not entries:
            return "there"
        if not there and len(entries) == 1:
            return "trash"
        return f"torn: {len(there)} of {MEMBERS} are there, and the trash holds {held}"

    def _holds(self, name, data):
        path = self.directory / name
        return path.exists() and path.read_bytes() == data


class Opened:
    """A workshop in this very process, with an agent of its own."""

    def __init__(self, root):
        self.root = root

    def __enter__(self):
        with mock.patch.object(subprocess, "Popen", start_slowly):
            self.agent = start_agent(None, is_person=True)
        return Workshop(self.root, self.agent)

    def __exit__(self, *_):
        self.agent.close()


def start_slowly(command, **options):
    """Start the agent, whose moves take long enough to be met halfway."""
    return start_process([command[0], str(HERE / "slow_agent.py"), *command[4:]], **options)


start_process = subprocess.Popen


def sites(root):
    tight = make_policy(KeepLast(1))
    off = make_policy(KeepLast(1), mode=PolicyMode.OFF)
    elsewhere = make_site(root, tight)
    return {
        "enforce": make_site(root, tight, caps=Caps(filesystem_share=1.0, cycle_count=1)),  # one after each start
        "plan": make_site(root, make_policy(KeepLast(1), mode=PolicyMode.PLAN)),
        "off": make_site(root, off),
        "none": replace(make_site(root), matches=()),
        "elsewhere": replace(
            elsewhere, matches=tuple(replace(match, user="somebody-else") for match in elsewhere.matches)
        ),
    }


def list_family(process_id):
    """Return a process and all that came of it."""
    found = [process_id]
    for each in found:
        with suppress(OSError):
            text = Path(f"/proc/{each}/task/{each}/children").read_text(encoding="ascii")
            found += map(int, text.split())
    return found


def count_moved(world, known):
    """Return how many files of a checkpoint the move that is under way has moved; None: none is."""
    with suppress(OSError):
        for name in set(os.listdir(world.trash)) - known:
            return sum(each.isdigit() for each in os.listdir(world.trash / name))
    return None


def wait_for_files(world, known, child, count):
    """Wait until a move has moved more files than that, or its process has ended."""
    while not has_ended(child):
        moved = count_moved(world, known)
        if moved is not None and moved > count:
            return
        time.sleep(0.001)  # a rename takes four times as long


def has_ended(child):
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait_until_alone(family):
    """Wait for the agent and its children to end."""
    deadline = time.monotonic() + PATIENCE
    while any(Path(f"/proc/{each}/exe").exists() for each in family[1:]):
        if time.monotonic() > deadline:
            raise RuntimeError("the agent did not end")
        time.sleep(0.002)


def kill_once(world, mode, dice):
    """Start in a mode, look, then kill a move; return what is wrong, and how many files were moved by then."""
    world.minutes += 10
    ready, say_ready = os.pipe()
    go, say_go = os.pipe()
    child, pipe = start_child(lambda: world.prune(mode, say_ready, go), 0)
    os.close(say_ready)
    told = os.read(ready, 1)
    found = world.find()
    wrong = [f"{step}: {place}" for step, place in found.items() if place not in {"there", "trash"}]
    if told != b".":
        wrong.append("a start failed" if not told else "an intent is open")
    known = set(os.listdir(world.trash)) if world.trash.exists() else set()
    os.write(say_go, b".")
    wait_for_files(world, known, child, dice.randrange(MEMBERS))
    family = list_family(child)
    for each in reversed(family) if dice.random() < 0.8 else family[:1]:  # the child that moves first
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    os.waitpid(child, 0)
    wait_until_alone(family)
    for descriptor in (ready, go, say_go, pipe):
        os.close(descriptor)
    return wrong, count_moved(world, known), found


def run(kills, seed, say=print):
    """Kill so often; return what was wrong, and how many kills left a checkpoint in two places."""
    get_template()  # before the first child, which could not remove it
    dice = random.Random(seed)
    wrong, torn, done = [], 0, 0
    layouts = itertools.cycle(LAYOUTS)
    while done < kills and not wrong:
        root = Path(tempfile.mkdtemp(prefix="ckptd-kills-"))
        try:
            world = World(root, next(layouts))
            world.minutes = in_process(world.train)
            found = dict.fromkeys(world.sets, "there")
            while not wrong and list(found.values()).count("there") > 2 and done < kills:
                wrong, moved, found = kill_once(world, MODES[done % len(MODES)], dice)
                torn += moved is not None and 0 < moved < MEMBERS
                done += 1
                if done % 50 == 0:
                    say(f"{done} kills, {torn} of them between the first and the last file of a checkpoint")
        finally:
            shutil.rmtree(root)
    return wrong, torn


def in_process(act):
    """Run something in a process of its own that may start threads; return what it returned."""
    import pickle  # noqa: PLC0415 - of what this very program wrote

    child, pipe = start_child(act, 0)
    with os.fdopen(pipe, "rb") as reading:
        data = reading.read()
    assert os.waitpid(child, 0)[1] == 0
    return pickle.loads(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    began = time.monotonic()
    wrong, torn = run(options.kills, options.seed)
    for each in wrong:
        print(each)
    told = "WRONG" if wrong else "all whole after the next start"
    print(f"seed {options.seed}: {options.kills} kills of checkpoints of {MEMBERS} files in", end=" ")
    print(f"{time.monotonic() - began:.0f} s, {torn} of them between the first and the last file: {told}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
