"""Records what one release of Slurm prints of the same jobs, for `tests/slurm/test_contract.py`.

    sudo PYTHONPATH=daemon:deploy python tests/slurm/record_release.py ROOT OUTPUT_DIRECTORY

ROOT is the root of a tree that has the release (`mmdebstrap --include=slurm-wlm,slurmrestd,slurmdbd,
slurm-wlm-mysql-plugin,munge,passwd SUITE ROOT`): 22.05 is in Debian bookworm, 24.11 in trixie, 26.05 in forky, 23.11 in
Ubuntu noble, and 25.11 in resolute. A private cluster with accounting runs in it, with the munged and MariaDB of
this system. Users write hostile names and bytes that are not UTF-8. What ckptd does not read of a job is taken out, and
paths of this machine become those of /home/alice.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from ckptd.slurm import accounting, past_jobs, queue_json, queue_text
from ckptd.slurm.programs import pinned_environment
from ckptd.slurm.rest_client import RestClient
from ckptd.slurm.squeue import ARGUMENTS, EACH_TASK
from demo import ports
from demo.accounting import start_database
from demo.daemons import Daemons
from demo.slurm_conf import Layout, format_gres_conf, format_slurm_conf, format_slurmdbd_conf

ALICE, REST = 20001, 20002
SLEEP = "#!/bin/sh\nsleep 600\n"
HOSTILE = b'x|y\x1f"},{"job_id":1,\\\nRestarts=99\xff'
KEPT_OF_CONFIG = ("ClusterName", "SlurmUser", "PrivateData", "Configuration data as of")


class Release:
    """A cluster of one release, and its programs."""

    def __init__(self, root, directory):
        self.root, self.directory = root, directory
        free = ports.find_free_ports(4)
        self.layout = Layout(
            directory=directory, cluster_name="lab", host=os.uname().nodename.partition(".")[0], address="127.0.0.1",
            is_loopback_only=False, controller_port=free[0], database_port=free[1], node_ports=free[2:],
            cpus_per_node=8, gpus_per_node={"a100": 2},
        )  # fmt: skip
        self.daemons = Daemons(directory)
        self.environment = {"SLURM_CONF": str(self.layout.slurm_conf)}

    def argv(self, *argv, uid=0):
        drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
        return ["chroot", str(self.root), *drop, *argv]

    def run(self, *argv, uid=0, stdin=b"", pinned=False):
        environment = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", **self.environment}
        done = subprocess.run(
            self.argv(*argv, uid=uid),
            env=pinned_environment(environment) if pinned else environment,
            input=stdin, capture_output=True, check=False, timeout=120,
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"{argv}: {done.stderr.decode(errors='replace')}")
        return done.stdout

    def start(self):
        for name in ("etc", "state", "spool/n1", "spool/n2", "run", "log", "home", "munge", "rest"):
            (self.directory / name).mkdir(parents=True)
        os.chown(self.directory / "rest", REST, REST)
        os.chown(self.directory / "home", ALICE, ALICE)
        for devices in self.layout.gpu_devices.values():
            for path in devices:
                path.symlink_to(os.devnull)
        self.layout.slurm_conf.write_text(format_slurm_conf(self.layout))
        self.layout.gres_conf.write_text(format_gres_conf(self.layout))
        self.layout.slurmdbd_conf.write_text(format_slurmdbd_conf(self.layout))
        self.layout.slurmdbd_conf.chmod(0o600)
        if self.release() >= "24":
            (self.directory / "etc/cgroup.conf").write_text("CgroupPlugin=disabled\n")
        start_database(self.directory / "mysql", self.layout.database_socket, self.daemons)
        munge = self.layout.munge_socket
        (munge.parent / "key").touch(mode=0o600)
        (munge.parent / "key").write_bytes(os.urandom(128))
        options = [f"--{name}={munge.parent / name}" for name in ("socket", "key-file", "pid-file", "seed-file")]
        options[1] = f"--key-file={munge.parent / 'key'}"
        self.daemons.start("munged", ["munged", "--foreground", "--force", *options])
        self.daemons.wait_ready("munged", munge.is_socket)
        database = {**self.environment, "MYSQL_UNIX_PORT": str(self.layout.database_socket)}
        self.daemons.start("slurmdbd", self.argv("slurmdbd", "-D"), database)
        self.wait_for("slurmdbd", "sacctmgr", "--noheader", "show", "cluster")
        for node in self.layout.node_names:
            self.daemons.start(f"slurmd-{node}", self.argv("slurmd", "-D", "-N", node), self.environment)
        self.daemons.start("slurmctld", self.argv("slurmctld", "-D"), self.environment)
        self.wait_for("slurmctld", "sinfo", "--noheader")
        self.wait_until(lambda: set(self.run("sinfo", "-h", "-N", "-o", "%T").split()) == {b"idle"})

    def release(self):
        return self.run("squeue", "--version").decode().split()[-1]

    def wait_for(self, daemon, *argv):
        environment = {**os.environ, **self.environment}
        ask = partial(subprocess.run, self.argv(*argv), env=environment, capture_output=True, check=False)
        self.daemons.wait_ready(daemon, lambda: ask().returncode == 0)

    def wait_until(self, holds):
        deadline = time.monotonic() + 90
        while not holds():
            if time.monotonic() > deadline:
                logs = [path.read_text(errors="replace")[-600:] for path in (self.directory / "log").iterdir()]
                queue = self.run("squeue", "-t", "all").decode()
                sys.exit("\n".join(["waited in vain; the queue and the ends of the logs are", queue, *logs]))
            time.sleep(0.2)

    def submit(self, name, *options, script=SLEEP):
        argv = ["sbatch", "--parsable", f"--chdir={self.directory}/home", "--output=/dev/null", "--job-name", name]
        return self.run(*argv, *options, uid=ALICE, stdin=script.encode()).decode().strip()

    def state(self, job):
        return self.run("squeue", "-h", "-r", "-t", "all", "-j", job, "-O", "State:|,RestartCnt:|").decode().strip()


def submit_jobs(cluster):
    """Submit one job of each kind, and wait until each is in its state."""
    submit = cluster.submit
    running = submit(
        "running", "--time=30", "--comment=ckpt=/scratch/alice", "--mail-user=alice@example.org", "--mail-type=END",
        "--gres=gpu:1", "--cpus-per-task=2",
    )  # fmt: skip
    requeued = submit("requeued", "--time=45", "--requeue")
    unlimited = submit("unlimited", "--time=UNLIMITED")
    array = submit("array", "--time=10", "--array=0-5%2")
    retried = submit("retried", "--time=15", "--array=0-2%1", "--requeue")
    submit("waits", "--time=120", "--begin=2035-01-01")
    submit("held", "--time=5", "--hold", "--no-requeue")
    submit("depends", "--time=5", f"--dependency=afterok:{running}")
    submit(HOSTILE, "--hold", b"--comment=" + HOSTILE, "--time=2-00:00:00")
    suspended = submit("suspended", "--time=15")
    cancelled = submit("cancelled", "--time=15")
    failed = submit("failed", "--time=15", script="#!/bin/sh\nexit 3\n")
    submit("parts", "--hold", "--time=5", "--ntasks=1", ":", "--ntasks=1")
    for job in (running, requeued, unlimited, f"{array}_0", f"{array}_1", f"{retried}_0", suspended, cancelled):
        cluster.wait_until(lambda job=job: cluster.state(job).startswith("RUNNING"))
    cluster.run("scontrol", "requeue", requeued)
    cluster.run("scontrol", "requeuehold", f"{retried}_0")
    cluster.run("scontrol", "suspend", suspended)
    cluster.run("scancel", cancelled)
    cluster.run("scontrol", "update", f"JobId={running}", "AdminComment=of the site")
    cluster.run(
        "scontrol", "create", "reservation", "ReservationName=service", "StartTime=2035-01-01T00:00:00", "Duration=60",
        "Users=root", "Flags=MAINT,IGNORE_JOBS", "Nodes=n1",
    )  # fmt: skip
    expected = {requeued: "RUNNING|1", f"{retried}_1": "RUNNING|0", cancelled: "CANCELLED", failed: "FAILED"}
    for job, state in expected.items():
        cluster.wait_until(lambda job=job, state=state: cluster.state(job).startswith(state))
    cluster.wait_until(lambda: cluster.state(f"{retried}_0").startswith(("PENDING|1", "REQUEUE_HOLD|1")))
    return {"running": running, "requeued": requeued}


def record(cluster, output):
    """Write what the programs and slurmrestd print."""
    output.mkdir(parents=True, exist_ok=True)
    jobs = submit_jobs(cluster)
    now = datetime.now(UTC)
    separators = queue_text.Separators(b"|fieldsx", b"|recordsrecordsrecords")
    header = json.dumps(queue_text.record_header("lab", separators, now)).encode()
    for name, options in (("queue", [EACH_TASK]), ("added-tasks", [])):
        argv = ["squeue", *ARGUMENTS, *options, "--Format", queue_text.format_option(separators)]
        write(output / f"{name}.squeue", cluster, header + b"\n" + cluster.run(*argv, pinned=True))
    squeue_json = cluster.run("squeue", "--json", "--all", "--states=all", pinned=True)
    write(output / "squeue.json", cluster, trim(squeue_json))
    for path, name in list_versions(cluster):
        write(output / f"slurmrestd-{name}.json", cluster, trim(ask(cluster, path)))
    options = ["--noheader", "--parsable2", "--delimiter", "|", "--duplicates", "--allocations", "--allusers"]
    time.sleep(2)  # until slurmdbd has the last end
    fields = ",".join(accounting.FIELDS)
    sacct = cluster.run("sacct", "--local", *options, "--starttime", "now-1hour", "--format", fields, pinned=True)
    write(output / "sacct-ended.txt", cluster, sacct)
    newer = past_jobs.NEWER_FIELDS if cluster.release() >= "24.11" else past_jobs.NEWER_FIELDS[1:]
    reader = past_jobs.PastReader("lab", newer, delimiter=b"|fieldsx|")
    (argv, since) = (past_jobs._argv(reader, now, now, None), now.replace(year=now.year - 1))
    argv[argv.index("--starttime") + 1] = past_jobs._format(since)
    write(output / "sacct-past.txt", cluster, cluster.run(*argv, pinned=True))
    config = cluster.run("scontrol", "show", "config", pinned=True).decode().splitlines()
    kept = "\n".join(line for line in config if line.startswith(KEPT_OF_CONFIG)) + "\n"
    write(output / "scontrol-config.txt", cluster, kept.encode())
    shown = cluster.run("scontrol", "show", "job", jobs["running"], pinned=True)
    write(output / "scontrol-job.txt", cluster, shown)
    plan = cluster.run("scontrol", "--oneliner", "show", "reservation", pinned=True)
    write(output / "scontrol-reservation.txt", cluster, plan)
    write(output / "scontrol-ping.txt", cluster, cluster.run("scontrol", "ping", pinned=True))


def ask(cluster, path):
    answer = RestClient(url=f"unix:{cluster.directory}/rest/socket").get("queue", path)
    if not isinstance(answer, str):
        sys.exit(str(answer))
    return answer.encode("utf-8", "surrogateescape")


def list_versions(cluster):
    """Start slurmrestd, and return the path and version of each of its lists of jobs."""
    environment = {**cluster.environment, "SLURMRESTD_SECURITY": "disable_unshare_files,disable_unshare_sysv"}
    socket = cluster.directory / "rest/socket"
    argv = cluster.argv("slurmrestd", "-a", "rest_auth/local", f"unix:{socket}", uid=REST)
    cluster.daemons.start("slurmrestd", argv, environment)
    cluster.daemons.wait_ready("slurmrestd", socket.is_socket)
    paths = json.loads(ask(cluster, "/openapi/v3"))["paths"]
    found = [(path, re.fullmatch(r"/slurm/(v0\.0\.\d+)/jobs/?", path)) for path in paths]
    return [(path, match[1]) for path, match in found if match and int(match[1].rpartition(".")[2]) >= 38]


def trim(raw):
    """Take out what ckptd does not read of a job, and what is about this machine."""
    document = json.loads(raw.decode("utf-8", "surrogateescape"))
    document["jobs"] = [{key: row[key] for key in queue_json.READ if key in row} for row in document["jobs"]]
    document.get("meta", {}).pop("client", None)
    document.pop("last_backfill", None)
    return json.dumps(document, indent=1, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"


def write(path, cluster, raw):
    raw = raw.replace(f"{cluster.directory}/home".encode(), b"/home/alice")
    raw = raw.replace(str(cluster.directory).encode(), b"/cluster")
    path.write_bytes(raw.replace(os.uname().nodename.partition(".")[0].encode(), b"node"))


def main():
    root, output = Path(sys.argv[1]), Path(sys.argv[2])
    if os.environ.get("INSIDE") != "1":
        argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", sys.executable]
        os.execvpe(argv[0], [*argv, *sys.argv], {**os.environ, "INSIDE": "1"})
    with tempfile.TemporaryDirectory(prefix="ckptd-record-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        inside = root / name.lstrip("/")
        inside.mkdir(parents=True)
        subprocess.run(["mount", "--bind", name, inside], check=True)
        subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
        for place in ("dev", "sys"):
            subprocess.run(["mount", "--rbind", f"/{place}", root / place], check=True)
        (root / "etc/hosts").write_text(Path("/etc/hosts").read_text())
        for user, uid in (("alice", ALICE), ("rest", REST)):
            if f"{user}:" not in (root / "etc/passwd").read_text():
                subprocess.run(["chroot", root, "useradd", "--no-create-home", "-u", str(uid), user], check=True)
        cluster = Release(root, directory)
        cluster.start()
        record(cluster, output)
        print(cluster.release(), *sorted(path.name for path in output.iterdir()))
        sys.stdout.flush()
        cluster.run("scancel", "--user=alice")
        time.sleep(2)
    os._exit(0)  # the end of the PID namespace ends the daemons


if __name__ == "__main__":
    main()
