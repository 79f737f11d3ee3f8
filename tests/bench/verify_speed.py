"""How fast verification jobs read checkpoints on 1, 2 and 4 nodes, beside `cat` and this node's own verification.

    python tests/bench/verify_speed.py [--size 256M] [--files 8]

It starts a private cluster of four nodes, needs root, and room for the files below /tmp. A time is from the start of
the first task to the end of the last one, without the queue. The nodes are processes of one host: its processors, its
memory and its disk are shared by all of them, and on two cores four nodes are no faster than two.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / place) for place in ("daemon", "deploy", "tests", "tests/bench")]

from inspect_speed import write_torch_file

from checkpoints.verify_jobs_site import MemoryTickets
from ckptd.checkpoints.executor import LocalExecutor, TicketState, VerificationRequest
from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.checkpoints.verify_jobs.job_executor import JobExecutor, JobLimits
from ckptd.core.model import CheckpointState, RunKey
from ckptd.core.text.quantities import parse_size
from ckptd.service.agent_start import start_agent
from demo.cluster import PrivateCluster
from support.node_python import install_node_python

DEADLINE = timedelta(minutes=30)
SETTINGS = """
[slurm]
cluster = "bench"
[verify_jobs]
partition = "main"
max_running = 8
python = "{python}"
"""
# as the Python of the tasks: notes when each began and ended, and the CPU time that it took
PYTHON = """#!/bin/bash
began=$(date +%s.%N)
{python} "$@"
status=$?
{{ echo "$began $(date +%s.%N)"; times; }} >{log}/$SLURM_ARRAY_TASK_ID
exit $status
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=256 << 20)
    parser.add_argument("--files", type=int, default=8)
    options = parser.parse_args()
    with PrivateCluster(name="bench", nodes=4, cpus_per_node=1, user_prefix=f"ckb{os.getpid()}-") as cluster:
        os.environ |= cluster.environment
        measure(cluster, options)


def measure(cluster, options):
    owner = cluster.create_user("owner")
    directory = owner.home / "ckpt"
    directory.mkdir()
    for number in range(options.files):
        path = directory / f"epoch_{number + 1}.pt"
        write_torch_file(path, options.size)
        os.utime(path, (time.time() - 3600,) * 2)
    for path in (directory, *directory.iterdir()):
        os.chown(path, owner.uid, owner.gid)
    known = inspect_tree(directory, now=datetime.now(UTC)).checkpoints
    total = sum(each.size_bytes for each in known)
    request = VerificationRequest(RunKey("bench", owner.uid, str(directory)), known, datetime.now(UTC))
    print(f"{len(known)} files, {total / 2**30:.2f} GiB; {os.cpu_count()} cores shared by all nodes")
    print_row("cat", total, *time_command(["cat", *map(str, directory.iterdir())]))
    log, config = write_settings(cluster)
    agent = start_agent(config, is_person=True)
    try:
        local = LocalExecutor(agent, DEADLINE)
        began = time.perf_counter()
        check(local.collect(local.submit(request)), known)
        print_row("this node", total, time.perf_counter() - began, None)
        for count in (1, 2, 4):
            run_jobs(agent, request, count)
            print_row(f"jobs on {count} nodes", total, *read_log(log))
    finally:
        agent.close()


def run_jobs(agent, request, count):
    executor = JobExecutor(
        agent=agent,
        tickets=MemoryTickets(),
        limits=JobLimits(max_tasks=count, task_bytes=1),
        deadline=DEADLINE,
        read_time=lambda: datetime.now(UTC),
    )
    ticket = executor.submit(request)
    while executor.follow(ticket).state is not TicketState.READY:
        time.sleep(1)
    check(executor.collect(ticket), request.checkpoints)
    executor.release(ticket)


def check(found, known):
    assert len(found) == len(known), found
    assert all(each.state is CheckpointState.COMPLETE for each in found)


def write_settings(cluster):
    """Return the directory where the tasks note their times, and the configuration."""
    folder = Path(tempfile.mkdtemp(dir=cluster.directory))
    folder.chmod(0o755)
    log, python, config = folder / "log", folder / "python", folder / "config.toml"
    log.mkdir()
    log.chmod(0o777)
    python.write_text(PYTHON.format(python=install_node_python(), log=log))
    python.chmod(0o755)
    config.write_text(SETTINGS.format(python=python))
    return log, config


def time_command(argv):
    began, busy = time.perf_counter(), read_children_seconds()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began, read_children_seconds() - busy


def read_children_seconds():
    times = os.times()
    return times.children_user + times.children_system


def read_log(log):
    """Return the time from the first task's start to the last one's end, and the CPU time of all; delete the notes."""
    rows = [path.read_text().split() for path in log.iterdir()]
    for path in log.iterdir():
        path.unlink()
    took = max(float(row[1]) for row in rows) - min(float(row[0]) for row in rows)
    return took, sum(parse_minutes(word) for row in rows for word in row[4:])  # of the shell's child


def parse_minutes(word):
    minutes, seconds = word.removesuffix("s").split("m")
    return int(minutes) * 60 + float(seconds)


def print_row(name, size, seconds, cpu_seconds):
    rate = f"{size / seconds / 2**20:8.0f} MiB/s"
    cpu = "" if cpu_seconds is None else f"{cpu_seconds:7.2f} s of CPU"
    print(f"{name:20} {seconds:7.2f} s {rate} {cpu}", flush=True)


if __name__ == "__main__":
    main()
