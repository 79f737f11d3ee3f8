"""What one poll costs slurmctld, slurmrestd and ckptd, for each source and size of the queue.

    python tests/bench/source_speed.py [--jobs 1000,10000]

Needs root: it starts a private Slurm, whose slurmctld and slurmrestd are real and hold this many pending jobs. The jobs
are the tasks of one array, each of which became a record of its own because it was updated. Processor seconds (user and
system) come from /proc/PID/stat of the servers and from getrusage of ckptd, which counts the `squeue` that it starts.
The peer of a row is `squeue -o %i` of the same jobs.
"""

import argparse
import os
import resource
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "deploy"))

from ckptd.core.model import Unknown
from ckptd.slurm.programs import Programs
from ckptd.slurm.rest_client import RestClient
from ckptd.slurm.slurmrestd import SlurmrestdSource
from ckptd.slurm.squeue import SqueueSource
from demo.cluster import PrivateCluster

TICKS = os.sysconf("SC_CLK_TCK")
LIMIT_SECONDS = 400.0


def read_cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def read_resident_mib(pid):
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def own_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def hold_jobs(cluster, user, count):
    """Submit an array, and let slurmctld make a record of each task."""
    options = ("--hold", f"--array=0-{count}", "--time=2-00:00:00", "--comment=ckpt=/scratch/alice")
    array = cluster.submit(user, "#!/bin/sh\n:\n", *options)
    cluster.command("scontrol", "update", f"JobId={array}_[0-{count - 1}]", "Nice=1")
    return array


def measure(cluster, source, servers):
    """Poll once and return (jobs, wall seconds, ckptd's seconds, the servers' seconds)."""
    before = [read_cpu_seconds(pid) for pid in servers]
    own, began = own_seconds(), time.monotonic()
    snapshot = source.read_queue(datetime.now(UTC))
    wall, own = time.monotonic() - began, own_seconds() - own
    if isinstance(snapshot, Unknown):
        sys.exit(f"{source.name}: {snapshot.reason}")
    spent = [read_cpu_seconds(pid) - earlier for pid, earlier in zip(servers, before, strict=True)]
    return len(snapshot.jobs), wall, own, spent


def allow_many_jobs(cluster, count):
    conf = Path(cluster.environment["SLURM_CONF"])
    cluster.stop_controller()
    conf.write_text(f"{conf.read_text()}MaxJobCount={2 * count + 1000}\nMaxArraySize={count + 2}\n")
    cluster.start_controller()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default="1000,10000")
    sizes = [int(size) for size in parser.parse_args().jobs.split(",")]
    with PrivateCluster(name="bench", user_prefix=f"ckb{os.getpid()}-", with_accounting=True) as cluster:
        allow_many_jobs(cluster, sum(sizes))
        url = cluster.start_rest(cluster.create_user("rest"))
        user = cluster.create_user("alice")
        programs = Programs(timeout_seconds=LIMIT_SECONDS, environment={**os.environ, **cluster.environment})
        sources = (
            SqueueSource(programs=programs),
            SlurmrestdSource(RestClient(url=url, timeout_seconds=LIMIT_SECONDS), programs=programs),
        )
        servers = [cluster.daemons.read_pid(name) for name in ("slurmctld", "slurmrestd")]
        print("source       jobs  wall s  ckptd s  slurmctld s  slurmrestd s  slurmrestd MiB")
        held = 0
        for size in sizes:
            hold_jobs(cluster, user, size - held)
            held = size
            began = own_seconds()
            cluster.command("squeue", "--noheader", "--array", "-o", "%i")
            print(f"squeue -o %i: {own_seconds() - began:.2f} s of processor time")
            for source in sources:
                count, wall, own, spent = measure(cluster, source, servers)
                print(
                    f"{source.name:<10} {count:>6} {wall:>7.2f} {own:>8.2f} {spent[0]:>12.2f} {spent[1]:>13.2f} "
                    f"{read_resident_mib(servers[1]):>15.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
