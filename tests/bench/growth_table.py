"""What the whole daemon costs in clusters of many shapes, for the table and the plot of docs/performance.md.

    python tests/bench/growth_table.py [SHAPE ...] [--quiet 300] [--saving 60] [--room DIRECTORY] [--json FILE]

`--list` prints the names of the shapes; without any, those of less than 100,000 files are measured. For each, a world
is made in a temporary directory below --room, and `ckptd run` works on it with SQLite: until every directory is
scanned, then --quiet seconds in which nothing changes, then --saving seconds with 20 saves a second. --quiet is the
scan interval, too, by default that of ckptd, so that each directory is scanned once in that time. CPU is user and
system time of whole processes. Peers in the same run: `find -printf` of the same files, and `cat` of the queue's text.
--json adds the rows to those of a file, which growth_plot.py draws. Root is needed for several users; without, one user
owns all.
"""

import argparse
import contextlib
import json
import resource
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / place) for place in ("daemon", "deploy", "tests")]

from support.process_use import read_peak_bytes, read_use
from support.sized_world import SizedWorld, WorldShape

# the first part of a name is the series of the plot
SHAPES = {
    "jobs/1k": WorldShape(jobs=1000, running=100, users=10, files=100),
    "jobs/10k": WorldShape(jobs=10_000, running=1000, users=10, files=100),
    "jobs/100k": WorldShape(jobs=100_000, running=10_000, users=10, files=100),
    "files/10k": WorldShape(jobs=1000, running=1000, users=10, files=10),
    "files/100k": WorldShape(jobs=1000, running=1000, users=10, files=100),
    "files/1M": WorldShape(jobs=1000, running=1000, users=10, files=1000),
    "jobs-of-a-user/1": WorldShape(jobs=1000, running=1000, users=1000, files=10),
    "jobs-of-a-user/3": WorldShape(jobs=1000, running=1000, users=334, files=10),
    "jobs-of-a-user/100": WorldShape(jobs=1000, running=1000, users=10, files=10),
    "jobs-of-a-user/1000": WorldShape(jobs=1000, running=1000, users=1, files=10),
    "one-user/2000": WorldShape(jobs=22_000, running=2000, users=1, files=100),
    "unnamed/200": WorldShape(jobs=200, running=200, users=1, files=10, is_named=False),
    "unnamed/2000": WorldShape(jobs=2000, running=2000, users=1, files=10, is_named=False),
    "shared/400": WorldShape(jobs=400, running=400, users=1, files=400, directories=4),
    "shared/4000": WorldShape(jobs=4000, running=4000, users=1, files=400, directories=40),
    "array/200": WorldShape(jobs=200, running=20, users=1, files=200, directories=1, is_array=True),
    "array/2000": WorldShape(jobs=2000, running=200, users=1, files=2000, directories=1, is_array=True),
    "array/20000": WorldShape(jobs=20_000, running=2000, users=1, files=20_000, directories=1, is_array=True),
    "large-directories/1": WorldShape(jobs=1, running=1, users=1, files=100_000),
    "large-directories/6": WorldShape(jobs=6, running=6, users=2, files=100_000),
    "large-directories/50": WorldShape(jobs=50, running=50, users=10, files=100_000),  # 20 GB on a disk
}
DEFAULT_FILES = 100_000
SAVES_A_SECOND = 20
PAGES = 10
COLUMNS = {
    "first_seconds": "scanned after s",
    "first_main": "main s",
    "first_agent": "agent s",
    "quiet_main": "quiet main s/min",
    "unchanged_agent": "unchanged agent s",
    "find": "find s",
    "saving_main": "saving main s/min",
    "saving_agent": "saving agent s/min",
    "peak_mib": "MiB",
    "first_page": "first page s",
    "page": "page s",
    "slurm_a_minute": "squeue s/min",
    "cat": "cat s",
    "bytes_a_checkpoint": "bytes/checkpoint",
    "errors": "errors in the log",
}


class MeasuredDaemon:
    """A real `ckptd run` on a world."""

    def __init__(self, world):
        self._world = world
        self._log = (world.root / "log").open("w")
        argv = [sys.executable, "-m", "ckptd", "--config", str(world.config), "run"]
        self._process = subprocess.Popen(argv, env=world.environment, stdout=self._log, stderr=self._log)
        self._began = time.monotonic()

    @property
    def pid(self):
        return self._process.pid

    def wait_until_scanned(self, limit):
        """Return the seconds from the start until every directory has been scanned.

        Raises:
            SystemExit: the daemon has ended, or the limit (seconds) is over.

        """
        while self.query("SELECT count(*) FROM runs WHERE scanned_at IS NOT NULL") < self._world.shape.directory_count:
            if self._process.poll() is not None or time.monotonic() > self._began + limit:
                raise SystemExit(f"not all directories were scanned:\n{(self._world.root / 'log').read_text()[-3000:]}")
            time.sleep(0.5)
        return time.monotonic() - self._began

    def query(self, statement):
        """Return one number from the database; 0 as long as there is none."""
        address = f"file:{self._world.root}/state/ckptd.sqlite3?mode=ro"
        try:
            with contextlib.closing(sqlite3.connect(address, uri=True, timeout=10)) as connection:
                return connection.execute(statement).fetchone()[0]
        except sqlite3.OperationalError:
            return 0

    def read_page(self):
        """Return the seconds until the page of all runs is read."""
        began = time.perf_counter()
        with urllib.request.urlopen(f"http://127.0.0.1:{self._world.port}/", timeout=300) as answer:
            answer.read()
        return time.perf_counter() - began

    def stop(self):
        self._process.terminate()
        try:
            self._process.wait(120)
        finally:
            self._process.kill()
            self._log.close()


def measure(world, options):
    """Return the figures of one world."""
    daemon = MeasuredDaemon(world)
    try:
        figures = {"first_seconds": daemon.wait_until_scanned(options.limit)}
        first = read_use(daemon.pid)
        figures |= {"first_main": first.main, "first_agent": first.agent}
        time.sleep(options.settle)  # what the first scans left to decide and to scan again
        used, minutes = use_during(daemon, lambda: time.sleep(options.quiet))
        figures |= {"quiet_main": used.main / minutes, "unchanged_agent": used.agent}
        figures |= {"slurm_a_minute": used.slurm / minutes, "watcher_a_minute": used.watcher / minutes}
        pages = [daemon.read_page() for _ in range(1 + PAGES)]
        figures |= {"first_page": pages[0], "page": statistics.median(pages[1:])}
        figures |= {"find": find_all(world), "cat": child_seconds(["cat", str(world.root / "queue")])}
        used, minutes = use_during(daemon, lambda: save(world, options.saving))
        figures |= {"saving_main": used.main / minutes, "saving_agent": used.agent / minutes}
        size = daemon.query("SELECT (SELECT page_count FROM pragma_page_count) * page_size FROM pragma_page_size")
        free = daemon.query("SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size")
        figures |= {"bytes_a_checkpoint": (size - free) / daemon.query("SELECT count(*) FROM checkpoints")}
        errors = (world.root / "log").read_text().count(" ERROR ")  # figures of failed steps would be too low
        return figures | {"peak_mib": read_peak_bytes(daemon.pid) / 2**20, "errors": errors}
    finally:
        daemon.stop()


def use_during(daemon, action):
    """Return the CPU that the daemon used meanwhile, and the minutes."""
    before, began = read_use(daemon.pid), time.monotonic()
    action()
    return read_use(daemon.pid) - before, (time.monotonic() - began) / 60


def save(world, seconds):
    """Let one directory after the other get a new checkpoint in place of its oldest."""
    began = time.monotonic()
    for number in range(int(seconds * SAVES_A_SECOND)):
        time.sleep(max(0.0, began + number / SAVES_A_SECOND - time.monotonic()))
        world.save(number % world.shape.directory_count)


def find_all(world):
    """Return the CPU seconds of `find` that prints what a scan reads of each file."""
    places = [str(each) for each in world.root.glob("runs*")]
    return child_seconds(["find", *places, "-printf", "%p %s %T@ %C@ %i %U\n"])


def child_seconds(argv):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def add_row(path, row):
    """Add a row to those of a file, in place of an earlier one of the same shape."""
    rows = json.loads(path.read_text()) if path.exists() else []
    rows = [each for each in rows if each["name"] != row["name"]] + [row]
    path.write_text(json.dumps(rows, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    parser.add_argument("--list", action="store_true", help="print the names of the shapes")
    parser.add_argument("--settle", type=float, default=90, help="seconds between the first scans and the quiet time")
    parser.add_argument("--quiet", type=int, default=300)
    parser.add_argument("--saving", type=float, default=60)
    parser.add_argument("--limit", type=float, default=3600, help="seconds until all directories must be scanned")
    parser.add_argument("--room", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{name:<22} {shape}" for name, shape in SHAPES.items()))
        return
    if unknown := set(options.shapes) - set(SHAPES):
        parser.error(f"no such shape: {', '.join(sorted(unknown))}; --list prints their names")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the daemon, too, and removes the world
    names = options.shapes or [name for name, shape in SHAPES.items() if shape.file_count < DEFAULT_FILES]
    print(" | ".join(["shape", "made in s", *COLUMNS.values()]), flush=True)
    for name in names:
        with tempfile.TemporaryDirectory(prefix="ckptd-growth-", dir=options.room) as folder:
            Path(folder).chmod(0o755)
            began = time.monotonic()
            world = SizedWorld(Path(folder), SHAPES[name], scan_seconds=options.quiet)
            made = time.monotonic() - began
            figures = measure(world, options)
        cells = [f"{made:.1f}", *(f"{figures[key]:,.3g}" for key in COLUMNS)]
        print(" | ".join([name, *cells]), flush=True)
        if options.json:
            add_row(options.json, {"name": name, "shape": asdict(SHAPES[name]), "made_seconds": made, **figures})


if __name__ == "__main__":
    main()
