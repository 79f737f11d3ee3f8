"""Processor seconds of commands (user and system, of the whole process): run `python tests/bench/command_start.py`.

Each runs several times and the best counts. `python -c pass` and `squeue --help` in the same run tell what the machine
gives. The commands read a SQLite record of 8,000 running jobs of ten users, each with 100 checkpoints (--jobs and
--saves), with their output in a pipe; `newest` reads a directory of 100 torch files, and `ls` beside it. As an
installed package is, ckptd is compiled before it is measured.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import sqlalchemy as sa

from ckptd.cli import COMMANDS as LISTED
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import FileIdentity, Finding, Flag, Job, JobState, QueueSnapshot, RunKey, Severity
from ckptd.core.model.records import DaemonIdentity
from ckptd.core.queue import compare
from ckptd.core.rows.stored_checkpoints import RowContext, checkpoint_to_row
from ckptd.core.runs import ownership, progress
from ckptd.store import runs
from ckptd.store.store import Store
from ckptd.store.tables import CheckpointTable
from support.checkpoint_bytes import torch_state
from support.queue_facts import RUN, make_checkpoint, make_scan

CLUSTER = "alpha"
USER_COUNT = 10
FLAGGED_EVERY = 8
COMMANDS = {  # and the most that each may take
    "--help": 0.4,
    "jobs --help": 0.4,
    "status": 0.4,
    "flags": 0.4,
    "jobs": 1.5,
    "jobs --json": 1.5,
    "jobs --user user3": 0.5,
    "show 1000": 0.4,
    "report": 0.4,
}
EMPTY = {  # on a record of one job; `ckptd COMMAND --help` of every command at most HELP_LIMIT
    "jobs": 0.4,
    "flags": 0.4,
    "status": 0.4,
    "inspect {checkpoints}": 0.4,
    "config example": 0.6,
    "config check": 0.6,
    "show 1000": 0.4,
    "advise 1000": 0.4,
    "report": 0.4,
    "db check": 0.4,
    "plan": 0.4,
    "trash list": 0.4,  # with the agent that it starts
}
HELP_LIMIT = 0.4
CHECKPOINTS = Path(__file__).parent.parent / "data/formats/torch/run_epochs"
NEWEST_LIMIT = 0.4


def fill(address, job_count, save_count):
    """Record jobs that run now; the checkpoints of the first run stand for those of all others."""
    now = datetime.now(UTC)
    store = Store.open(address, upgrade=True)
    changes = compare({}, QueueSnapshot(cluster=CLUSTER, polled_at=now, jobs=tuple(make_jobs(job_count, now))))
    located = [replace(each, run=key_of(each.key.job_id)) for each in changes.new]
    store.jobs.record(replace(changes, new=tuple(located)))
    store.clusters.record_poll(CLUSTER, now)
    store.clusters.record_heartbeat(CLUSTER, DaemonIdentity(host="admin", pid=1, version="0", started_at=now), now)
    columns = ", ".join(
        column.name for column in CheckpointTable.__table__.columns if column.name not in {"id", "run_id"}
    )
    with store.database.writing() as connection:
        first, *others = runs.find_runs(connection, [each.run for each in located]).values()
        rows = [row | {"run_id": first, "attempt_id": None} for row in make_rows(save_count, now)]
        connection.execute(sa.insert(CheckpointTable), rows)
        copy = f"INSERT INTO checkpoints (run_id, {columns}) SELECT ?, {columns} FROM checkpoints WHERE run_id = ?"
        for run_id in others:
            connection.exec_driver_sql(copy, (run_id, first))
    store.flags.record(FlagChanges(opened=tuple(make_flags(job_count, now))), now)
    store.close()


def make_jobs(count, now):
    for number in range(count):
        yield Job(
            cluster=CLUSTER,
            job_id=1000 + number,
            user=f"user{number % USER_COUNT}",
            uid=1000 + number % USER_COUNT,
            name=f"train-{number}",
            state=JobState.RUNNING,
            partition="gpu",
            started_at=now - timedelta(hours=5),
            ends_at=now + timedelta(hours=5),
            time_left=timedelta(hours=5),
            time_limit=timedelta(hours=10),
        )


def key_of(job_id):
    return RunKey(CLUSTER, 1000 + job_id % USER_COUNT, f"/scratch/user{job_id % USER_COUNT}/run-{job_id}/checkpoints")


def make_rows(count, now):
    found = [
        make_checkpoint(
            f"checkpoints/epoch_{number}.pt",
            identities=(FileIdentity(1, number, number, 1),),
            modified_at=now - timedelta(minutes=3 * (count - number) + 5),
            step=number * 100,
            epoch=number,
        )
        for number in range(count)
    ]
    scan = replace(make_scan(0, *found), scanned_at=now)
    changes = progress.merge_scan((), scan, ownership.Writers(owner_uid=1000), now)
    return [checkpoint_to_row(known, RowContext(RUN.directory, RUN.uid)) for known in changes.appeared]


def make_flags(job_count, now):
    for number in range(0, job_count, FLAGGED_EVERY):
        finding = Finding(
            rule="at-risk",
            severity=Severity.WARNING,
            run=key_of(1000 + number),
            job_id=1000 + number,
            user=f"user{number % USER_COUNT}",
            evidence={"lost_seconds": number},
            recorded_advice="About 33 s of work will be lost at the time limit: save once more before it.",
        )
        yield Flag(finding=finding, opened_at=now)


def measure(argv, environment, times):
    """Return the least processor seconds of some runs of a program that prints something."""
    took = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.stdout or argv[-1] == "pass", argv
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(took)


def write_config(folder, job_count, save_count):
    folder.mkdir()
    fill(f"sqlite:///{folder}/ckptd.sqlite3", job_count, save_count)
    config = folder / "config.toml"
    config.write_text(f'[service]\nstate_directory = "{folder}"\n')
    return config


def write_checkpoints(folder, count):
    folder.mkdir()
    for number in range(count):
        path = folder / f"epoch_{number}.pt"
        path.write_bytes(torch_state(number, 100 * number))
        at = 1_700_000_000 + 600 * number
        os.utime(path, (at, at))
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=8000)
    parser.add_argument("--saves", type=int, default=100)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        large = write_config(folder / "large", options.jobs, options.saves)
        small = write_config(folder / "small", 1, 1)
        environment = os.environ | {"PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        (folder / "slurm.conf").write_text(
            f"ClusterName={CLUSTER}\nSlurmctldHost=localhost\n"
        )  # squeue starts with none else
        environment["SLURM_CONF"] = f"{folder}/slurm.conf"
        python = measure([sys.executable, "-c", "pass"], environment, options.times)
        print(f"{'python -c pass':<40} {python:6.3f} s")
        if squeue := shutil.which("squeue"):
            print(f"{'squeue --help':<40} {measure([squeue, '--help'], environment, options.times):6.3f} s")
        saves = write_checkpoints(folder / "saves", options.saves)
        print(f"{'ls -l':<40} {measure(['ls', '-l', str(saves)], environment, options.times):6.3f} s")
        took = measure([sys.executable, "-m", "ckptd", "newest", str(saves)], environment, options.times)
        what = f"ckptd newest, {options.saves} checkpoints"
        print(f"{what:<40} {took:6.3f} s  {took / python:5.1f} x python -c pass, at most {NEWEST_LIMIT} s")
        slow = ["newest"] if took > NEWEST_LIMIT else []
        helps = {f"{name} --help": HELP_LIMIT for name in LISTED}
        for config, what, commands in (
            (large, f"{options.jobs} jobs", COMMANDS),
            (small, "1 job", EMPTY | helps),
        ):
            for command, limit in commands.items():
                words = command.format(checkpoints=CHECKPOINTS).split()
                argv = [sys.executable, "-m", "ckptd", "--config", str(config), *words]
                took = measure(argv, environment, options.times)
                ratio = f"{took / python:5.1f} x python -c pass"
                print(f"{f'ckptd {command}, {what}':<40} {took:6.3f} s  {ratio}, at most {limit} s")
                slow += [command] if took > limit else []
    if slow:
        raise SystemExit(f"too slow: {', '.join(slow)}")


if __name__ == "__main__":
    main()
