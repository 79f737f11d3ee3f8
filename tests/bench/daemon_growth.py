"""What a whole daemon costs on clusters of several sizes: `python tests/bench/daemon_growth.py [SHAPE...]`.

A SHAPE is a name of `SHAPES` or `RUNNING,WAITING,FILES,USERS[,array]`: jobs, files in each directory, users. Of each, a
world is made in a temporary directory, and the real `ckptd run` works on it with an empty SQLite database: until every
directory is scanned, then for one scan interval in which nothing changes, then beside jobs that save. CPU is that of
whole processes, user and system, from /proc; the agent's includes its children. `find -printf` of the same files runs
in the same minute. It runs as root, makes the users of the jobs, and removes them.
"""

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import closing
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parents[2] / "deploy")]

from bench.made_world import Shape, make_world
from support.mail_server import free_port

SHAPES = {
    "100 jobs": Shape(100, 900, 100, 10),
    "1,000 jobs": Shape(1000, 9000, 100, 10),
    "10,000 jobs": Shape(10_000, 90_000, 100, 10),
    "users with 3 jobs": Shape(3000, 0, 100, 1000),
    "1,000 jobs of one user": Shape(1000, 9000, 100, 1),
    "2,000 jobs of one user": Shape(2000, 18_000, 50, 1),
    "an array in one directory": Shape(2000, 18_000, 20_000, 1, is_array=True),
    "large directories": Shape(10, 0, 100_000, 10),
}
TICKS = os.sysconf("SC_CLK_TCK")
HEADINGS = (
    "shape", "files", "scanned after s", "main s", "agent s", "MiB", "first page s", "page s", "idle main s/min",
    "idle agent s/min", "unchanged ms/directory", "find ms/directory", "saving main s/min", "seen",
)  # fmt: skip


class Daemon:
    """One `ckptd run` on a world, and what its processes have used."""

    def __init__(self, world, interval):
        self.port = free_port()
        state = world.folder / "state"
        state.mkdir()
        self._database = state / "ckptd.sqlite3"
        config = world.folder / "config.toml"
        config.write_text(
            f'[slurm]\nsource = "squeue"\ncluster = "lab"\n[scan]\ninterval = "{interval}s"\n'
            f'[service]\nstate_directory = "{state}"\n[web]\nlisten = "127.0.0.1:{self.port}"\n'
        )
        self._log = (world.folder / "log").open("w")
        argv = [sys.executable, "-m", "ckptd", "--config", str(config), "run"]
        self._process = subprocess.Popen(
            argv, env={**os.environ, **world.environment}, stdout=self._log, stderr=self._log
        )
        self.began = time.monotonic()

    @property
    def elapsed(self):
        return time.monotonic() - self.began

    def ask(self, statement):
        """Return one number of the database; 0 while there is none."""
        try:
            with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True, timeout=5)) as connection:
                return connection.execute(statement).fetchone()[0] or 0
        except sqlite3.Error:
            return 0

    def count_scanned(self):
        return self.ask("SELECT count(*) FROM runs WHERE scanned_at IS NOT NULL AND directory LIKE '/%'")

    def read_main(self):
        """Return the CPU seconds of the main process."""
        return sum(_read_times(self._process.pid)[:2])

    def read_agent(self):
        """Return the CPU seconds of the processes that the main process has started, with their children."""
        children = _list_children(self._process.pid)
        living = [other for child in children for other in _list_children(child)]
        return sum(sum(_read_times(child)) for child in children) + sum(sum(_read_times(each)[:2]) for each in living)

    def read_peak(self):
        """Return the largest resident memory of the main process so far, in MiB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def get_page(self):
        """Return how many seconds the page of all runs takes."""
        began = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=300) as answer:
            answer.read()
        return time.monotonic() - began

    def is_running(self):
        return self._process.poll() is None

    def stop(self):
        self._process.terminate()
        self._process.wait(120)
        self._log.close()


def _read_times(process):
    """Return user and system time of a process, and those of its children that have ended, in seconds."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return (0.0,) * 4
    return tuple(int(each) / TICKS for each in fields[11:15])


def _list_children(process):
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def find_files(world):
    """Return the CPU seconds of `find` printing what a scan asks for of all files."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for start in range(0, len(world.directories), 1000):
        places = [str(each) for each in world.directories[start : start + 1000]]
        subprocess.run(["find", *places, "-printf", "%p %s %T@ %C@ %i %U\n"], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(name, shape, options):
    """Return the row of one shape."""
    with tempfile.TemporaryDirectory(prefix="ckptd-growth-") as folder:
        Path(folder).chmod(0o755)
        world = make_world(Path(folder), shape)
        try:
            return {"shape": name, "files": shape.file_count, **_measure_world(world, options)}
        finally:
            world.close()


def _measure_world(world, options):
    daemon, count = Daemon(world, options.interval), world.shape.directory_count
    try:
        while daemon.count_scanned() < count and daemon.elapsed < options.limit and daemon.is_running():
            time.sleep(1)
        row = {"scanned after s": daemon.elapsed if daemon.count_scanned() >= count else None}
        row |= {"main s": daemon.read_main(), "agent s": daemon.read_agent()}
        time.sleep(options.interval / 2)  # so that the interval holds every directory's next scan once
        main, agent, began = daemon.read_main(), daemon.read_agent(), time.monotonic()
        time.sleep(options.interval)
        minutes = (time.monotonic() - began) / 60
        idle, scans = daemon.read_main() - main, daemon.read_agent() - agent
        row |= {"idle main s/min": idle / minutes, "idle agent s/min": scans / minutes}
        row |= {"unchanged ms/directory": 1000 * scans / count, "find ms/directory": 1000 * find_files(world) / count}
        row |= {"first page s": daemon.get_page(), "page s": min(daemon.get_page() for _ in range(3))}
        row |= _save(world, daemon, options) if options.saves else {}
        return row | {"MiB": daemon.read_peak()}
    finally:
        daemon.stop()


def _save(world, daemon, options):
    """Let jobs save for a minute, so many times a second; return what that costs and how many saves were seen."""
    before, main, began = daemon.ask("SELECT count(*) FROM checkpoints"), daemon.read_main(), time.monotonic()
    count = 60 * options.saves
    for number in range(count):
        world.save(number % len(world.directories), 10_000_000 + number)
        time.sleep(max(0.0, began + number / options.saves - time.monotonic()))
    minutes = (time.monotonic() - began) / 60
    used = (daemon.read_main() - main) / minutes
    time.sleep(options.interval)
    seen = daemon.ask("SELECT count(*) FROM checkpoints") - before
    return {"saving main s/min": used, "seen": f"{seen} of {count}"}


def show(value):
    """Return a figure as text, and a dash where there is none."""
    if isinstance(value, float):
        return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else value or "-"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("shapes", nargs="*", default=["100 jobs", "1,000 jobs"], metavar="SHAPE")
    arguments.add_argument("--interval", type=int, default=300, help="seconds between scans of a directory")
    arguments.add_argument("--saves", type=int, default=20, help="saves a second in the last minute; 0: none")
    arguments.add_argument("--limit", type=int, default=1800, help="seconds until all directories must be scanned")
    arguments.add_argument("--json", type=Path, help="file to which each row is added, for plot_growth.py")
    options = arguments.parse_args()
    print(" | ".join(HEADINGS), flush=True)
    for name in options.shapes:
        row = measure(name, SHAPES.get(name) or Shape.parse(name), options)
        print(" | ".join(show(row.get(each)) for each in HEADINGS), flush=True)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
