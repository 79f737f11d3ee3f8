"""How many requests the daemon sends to slurmctld while the tasks of arrays come and go, counted by `sdiag`.

    python tests/bench/slurm_requests.py [--minutes 3] [--seconds-per-task 15]

Needs root: it starts a private Slurm with 64 slots, and the daemon with default intervals and `read_batch_scripts`
set. Five arrays of 1,000 tasks run in one directory each; a tenth of the tasks is requeued once. Printed: how many
tasks began, and `sdiag` before and after: the requests of types that only ckptd sends, with slurmctld's time for them.
The peer is what one `squeue` a minute would send: one REQUEST_JOB_INFO and one REQUEST_PARTITION_INFO.
"""

import argparse
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "deploy"))

from demo.cluster import PrivateCluster
from demo.watcher import Watcher

SETTINGS = """
[slurm]
read_batch_scripts = true
[scan]
allowed_roots = ["{homes}"]
[health]
min_job_duration = "1s"
[web]
listen = "{listen}"
[service]
state_directory = "{state}"
"""
SCRIPT = """#!/bin/bash
: train --checkpoint-dir "$PWD/task-$SLURM_ARRAY_TASK_ID"
sleep {seconds}
[ -z "$SLURM_RESTART_COUNT" ] && [ $((SLURM_ARRAY_TASK_ID % 10)) = 0 ] && scontrol requeue "$SLURM_JOB_ID"
exit 0
"""
# Of ckptd alone: nodes and jobs of this cluster send other types (the requeues are REQUEST_JOB_REQUEUE).
ASKED_BY_CKPTD = frozenset(
    {
        "REQUEST_JOB_INFO",
        "REQUEST_JOB_INFO_SINGLE",
        "REQUEST_JOB_USER_INFO",
        "REQUEST_PARTITION_INFO",
        "REQUEST_BATCH_SCRIPT",
        "REQUEST_BUILD_INFO",
        "REQUEST_RESERVATION_INFO",
        "REQUEST_PING",
        "REQUEST_CONTROL_STATUS",
        "REQUEST_CANCEL_JOB_STEP",
        "REQUEST_UPDATE_JOB",
    }
)
ARRAYS, TASKS = 5, 1000


def read_requests(cluster):
    """Return the number of requests and the microseconds for them, by type."""
    listed = cluster.command("sdiag").partition("by message type")[2].partition("by user")[0]
    found = re.findall(r"^\s*(\w+)\s*\(.*?count:(\d+).*?total_time:(\d+)", listed, re.MULTILINE)
    return {name: (int(count), int(spent)) for name, count, spent in found if name in ASKED_BY_CKPTD}


def count_started(cluster):
    return int(re.search(r"^Jobs started:\s*(\d+)", cluster.command("sdiag"), re.MULTILINE)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seconds-per-task", type=int, default=15)
    options = parser.parse_args()
    prefix = f"ckq{os.getpid()}-"
    with PrivateCluster(name="bench", nodes=4, user_prefix=prefix, with_accounting=True) as cluster:
        user = cluster.create_user("alice")
        script = SCRIPT.format(seconds=options.seconds_per_task)
        for number in range(ARRAYS):
            directory = user.home / f"work{number}"
            directory.mkdir()
            os.chown(directory, user.uid, user.gid)
            tasks = ("--requeue", f"--array=0-{TASKS - 1}", "--output=/dev/null", "--time=30")
            cluster.submit(user, script, *tasks, work_dir=directory)
        watcher = Watcher(cluster, SETTINGS)
        watcher.start()
        time.sleep(30)  # the first poll and the first searches
        before, started = read_requests(cluster), count_started(cluster)
        time.sleep(options.minutes * 60)
        after, started = read_requests(cluster), count_started(cluster) - started
        print(f"{started} tasks began in {options.minutes:g} min ({started / options.minutes * 60:.0f} an hour)")
        print(f"{'request':<28} {'before':>8} {'after':>8} {'a minute':>9} {'slurmctld ms a minute':>22}")
        for name in sorted(after):
            count, spent = after[name]
            earlier, spent_before = before.get(name, (0, 0))
            rate = (count - earlier) / options.minutes
            ms = (spent - spent_before) / 1000 / options.minutes
            print(f"{name:<28} {earlier:>8} {count:>8} {rate:>9.1f} {ms:>22.1f}")
        cluster.daemons.stop("ckptd")
        cluster.command("scancel", f"--user={user.name}")


if __name__ == "__main__":
    main()
