"""How much processor time and memory one poll of a large queue takes ckptd.

    python tests/bench/queue_speed.py [--jobs 100000] [--running 10000] [--polls 4]

A stand-in `squeue` prints a synthetic queue with the separators that it was asked for, so the real source runs whole:
process, pipe, parser. Between polls the times left of running jobs go on. The ratio is to a `cat` of the same text
(through the same pipe and with no parser), and to the real `squeue` where one answers here with as many jobs.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ckptd.core.model import Unknown
from ckptd.slurm import queue_text, times
from ckptd.slurm.programs import Programs
from ckptd.slurm.squeue import ARGUMENTS, SqueueSource

START = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp())
STAND_IN = """#!/bin/sh
# prints a recorded queue with the separators that -O asks for: the last argument is `JobID:SEP,...,last:END`
for format; do :; done
field=${format#JobID:}; field=${field%%,*}
record=${format##*:}
exec sed -e "s/\\x1f/$field/g" -e "s/\\x1e/$record/g" "$QUEUE_TEXT"
"""


def write_queue(path, jobs, running, poll):
    """Write a queue with 0x1f and 0x1e for the separators; its jobs look like a busy site's."""
    with path.open("w") as file:
        for number in range(jobs):
            file.write("\x1f".join(fields(number, number < running, poll)) + "\x1e\n")


def fields(number, is_running, poll):
    user = number % 700
    limit = timedelta(hours=1 + number % 48)
    started = START - number % 3600
    left = limit - timedelta(seconds=number % 3000 + 60 * poll)
    row = dict.fromkeys(queue_text.FIELDS, "N/A")
    row |= {"JobID": str(1_000_000 + number), "ArrayJobID": str(1_000_000 + number), "UserName": f"user{user:04}"}
    row |= {"UserID": str(20_000 + user), "Account": f"project{user % 90}", "Partition": f"gpu{number % 6}"}
    row |= {
        "QOS": "normal",
        "State": "RUNNING" if is_running else "PENDING",
        "RestartCnt": str(number % 3 if is_running else 0),
    }
    row |= {"Reason": "None" if is_running else "Priority", "Requeue": "1", "TimeLimit": times.format_duration(limit)}
    row |= {"TimeLeft": times.format_duration(left if is_running else limit), "SubmitTime": str(START - number)}
    row |= {"StartTime": str(started) if is_running else "N/A", "Dependency": "(null)", "BatchFlag": "1"}
    row |= {"EndTime": str(started + int(limit.total_seconds())) if is_running else "N/A", "NumTasks": "4"}
    row |= {"NodeList": f"node[{number % 900}-{number % 900 + 3}]" if is_running else "", "NumNodes": "4"}
    row |= {"BatchHost": f"node{number % 900}" if is_running else "n/a", "NumCPUs": "256"}
    row |= {"tres-alloc": "cpu=256,mem=1000G,node=4,billing=256,gres/gpu=16", "tres-per-node": "gres:gpu:4"}
    row |= {
        "Name": f"train-{number % 5000}",
        "WorkDir": f"/scratch/project{user % 90}/user{user:04}/run{number // 700 % 20}",
    }
    row |= {"Comment": f"ckpt=/scratch/project{user % 90}/user{user:04}/run{number // 700 % 20}/checkpoints"}
    row |= {"admin_comment": "(null)", "Command": f"/home/user{user:04}/train{number % 50}.sh"}
    return [row[name] for name in queue_text.FIELDS]


def child_seconds(argv, environment):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, env=environment, stdout=subprocess.PIPE, check=True, timeout=120)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def own_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident_mb():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def poll_once(source, now):
    before = own_seconds()
    snapshot = source.read_queue(now)
    spent = own_seconds() - before
    if isinstance(snapshot, Unknown):
        sys.exit(f"the poll failed: {snapshot}")
    return snapshot, spent


def real_squeue_seconds(jobs):
    """Processor time of the real squeue; None where none answers here with so many jobs."""
    argv = ["squeue", *ARGUMENTS, "--Format", queue_text.format_option(queue_text.Separators.draw())]
    try:
        count = subprocess.run(["squeue", *ARGUMENTS, "-o", "%A"], capture_output=True, check=True, timeout=60)
        if len(count.stdout.splitlines()) < jobs:
            return None
        return child_seconds(argv, dict(os.environ))
    except (OSError, subprocess.SubprocessError):
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--running", type=int, default=10_000)
    parser.add_argument("--polls", type=int, default=3)
    options = parser.parse_args()
    base_mb = resident_mb()
    with tempfile.TemporaryDirectory(prefix="ckptd-bench-") as directory:
        stand_in = Path(directory, "squeue")
        stand_in.write_text(STAND_IN)
        stand_in.chmod(0o755)
        text = Path(directory, "queue.txt")
        environment = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}", "QUEUE_TEXT": str(text)}
        os.environ["PATH"] = environment["PATH"]
        source = SqueueSource(cluster="bench", programs=Programs(timeout_seconds=120, environment=environment))
        snapshot = None
        for poll in range(options.polls):
            write_queue(text, options.jobs, options.running, poll)
            previous = {job.job_id: job for job in snapshot.jobs} if snapshot else {}
            snapshot, spent = poll_once(source, datetime.fromtimestamp(START + 60 * poll, UTC))
            before = own_seconds()
            changed = sum(1 for job in snapshot.jobs if previous.get(job.job_id) is not job)
            compared = own_seconds() - before
            del previous
            print(
                f"poll {poll + 1}: {len(snapshot.jobs)} jobs, {changed} not the same object as before, parse "
                f"{spent:.2f} s, comparison {compared:.2f} s of processor time, RSS {resident_mb():.0f} MB"
            )
        os.environ["PATH"] = os.environ["PATH"].removeprefix(f"{directory}:")
        cat = child_seconds(["cat", str(text)], environment)
        print(f"text {text.stat().st_size / 1e6:.0f} MB; RSS at start {base_mb:.0f} MB")
        print(f"ratio of the last poll to `cat` of the same text ({cat:.3f} s): {spent / max(cat, 0.001):.1f}")
        real = real_squeue_seconds(options.jobs)
        if real is None:
            print("no real squeue with so many jobs answers here")
        else:
            print(f"ratio of the last poll to the real squeue ({real:.2f} s): {spent / real:.2f}")


if __name__ == "__main__":
    main()
