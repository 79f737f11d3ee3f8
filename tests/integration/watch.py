"""The daemon's cycle on a real cluster, run by hand, and what `sacct` has to say of the same jobs."""

import itertools
import os
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ckptd.core.model import ENDED_STATES, EndCause, QueueSnapshot
from ckptd.service.step_table import run_once
from ckptd.slurm import times
from ckptd.slurm.programs import Programs
from ckptd.slurm.squeue import SqueueSource
from ckptd.steps import poll
from ckptd.steps.state import begin
from support.migrated import open_record
from support.parts import make_parts
from support.shared_agent import QUICK, start_with, write_settings


class Watch:
    """The daemon's cycle, run by hand: between two calls the daemon is stopped."""

    def __init__(self, slurm, name, *, path=os.environ["PATH"], beside=(), source=SqueueSource, **changes):
        self.slurm, self.beside = slurm, beside
        self.agent = start_with(write_settings({**QUICK, "max_depth": 3, "allowed_roots": [str(slurm.directory)]}))
        environment = {**os.environ, **slurm.environment, "PATH": path}
        self.parts = make_parts(
            "ledger",
            source(programs=Programs(environment=environment)),
            open_record(f"sqlite:///{slurm.directory}/{name}.db"),
            self.agent,
            scan_interval=timedelta(seconds=1),
            max_poll_age=timedelta(minutes=1),
            **changes,
        )
        self.start()

    def start(self):
        """What a daemon does that starts: it knows what the record says and no more."""
        self.state = begin(self.parts, now())
        for other in self.beside:
            other.start()

    def turn(self):
        run_once(self.parts, self.state, now())
        for other in self.beside:
            other.poll()

    def poll(self):
        """Look at the queue alone."""
        at = now()
        poll.record_queue(self.parts, self.state, *poll.observe_queue(self.parts, self.state, at), at)

    def wait(self, what, holds, seconds=90):
        def turned():
            self.turn()
            return holds()

        self.slurm.wait_for(what, turned, seconds=seconds, pause_seconds=0.3)

    def attempts(self, job):
        keys = self.parts.store.runs.find_of_job(job)
        found = [each for key in keys for history in self.parts.store.histories.read("ledger", [key])
                 for each in history.attempts if each.job.job_id == job]  # fmt: skip
        return sorted(found, key=lambda each: each.restart_count)

    def lines(self, job):
        keys = self.parts.store.runs.find_of_job(job)
        found = [
            line for key in keys for line in self.parts.store.lost_work.list_lines(key) if line.attempt[0].job_id == job
        ]
        return sorted(found, key=lambda line: line.attempt[1])

    def causes(self, job):
        return [each.cause for each in self.attempts(job)]

    def close(self):
        self.parts.store.close()
        self.agent.close()


def now():
    return datetime.now(UTC)


class Row(NamedTuple):
    """One execution as accounting has it."""

    state: str
    started_at: datetime
    ended_at: datetime
    node_count: int
    cpu_count: int
    gpu_count: int
    suspended: timedelta


def is_on_account(slurm, job):
    argv = ["sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}", "--format=State"]
    return set(slurm.command(*argv).split()) == {"RUNNING"}


def read_accounting(slurm, job):
    """Return the job's executions by sacct, those that have ended; of one with several parts their sums."""
    text = slurm.command(
        "sacct", "--noheader", "--parsable2", "--duplicates", "--allocations", f"--jobs={job}",
        "--format=JobIDRaw,JobID,State,Start,End,NNodes,NCPUS,AllocTRES,Suspended", "--starttime=now-1hours",
        environment={"SLURM_TIME_FORMAT": "%s"},
    )  # fmt: skip
    rows = [line.split("|") for line in text.splitlines()]
    ended = sorted(
        Row(state.split()[0], instant(start), instant(end), int(nodes), int(cpus), gpus(tres),
            times.parse_duration(idle))
        for job_id, name, state, start, end, nodes, cpus, tres, idle in rows
        if (job_id == str(job) or name.startswith(f"{job}+")) and end.isdigit() and start.isdigit()
    )  # fmt: skip
    return [add_up(parts) for _, parts in itertools.groupby(ended, key=lambda row: row[:3])]


def is_start_accounted(slurm, job):
    """Whether accounting knows that a job has started."""
    starts = slurm.command(
        "sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}", "--format=Start",
        "--starttime=now-1hours", environment={"SLURM_TIME_FORMAT": "%s"},
    )  # fmt: skip
    return any(start.isdigit() for start in starts.split())


def let_starts_settle(slurm, *jobs):
    """Wait until accounting has the jobs' starts, and a little more.

    Slurm has lost the end of attempts that were preempted or requeued just after accounting had their start, or before.
    """
    slurm.wait_for("accounting to have the starts", lambda: all(is_in_accounting(slurm, job) for job in jobs))
    time.sleep(2)


def is_in_accounting(slurm, job):
    """Whether accounting has the start of an attempt that goes on."""
    argv = ("sacct", "--noheader", "--parsable2", "--duplicates", "--allocations", "--format=State", f"--jobs={job}")
    return "RUNNING" in slurm.command(*argv, "--starttime=now-1hours")


def gpus(tres):
    """Return the GPUs of all models, which accounting has beside those of each."""
    return sum(int(count) for count in re.findall(r"(?:^|,)gres/gpu=(\d+)", tres))


def add_up(parts):
    first, *more = parts
    names = ("node_count", "cpu_count", "gpu_count")
    return first._replace(**{name: sum(getattr(row, name) for row in (first, *more)) for name in names})


def instant(seconds):
    return datetime.fromtimestamp(int(seconds), UTC)


def assert_ledger_equals_accounting(watch, job):
    """Every ended execution has one line, and what it lost is all that it ran less what was saved, to the second."""
    rows = sorted(read_accounting(watch.slurm, job), key=lambda row: row.started_at)
    ended = [each for each in watch.attempts(job) if each.ended_at]
    lines = watch.lines(job)
    assert [(each.started_at, each.ended_at) for each in ended] == [(row.started_at, row.ended_at) for row in rows]
    assert [line.ended_at for line in lines] == [row.ended_at for row in rows]
    for line, row, attempt in zip(lines, rows, sorted(ended, key=lambda each: each.started_at), strict=True):
        lost = row.ended_at - (line.loss.saved_at or row.started_at) - row.suspended
        if line.cause is EndCause.COMPLETED:
            lost = timedelta(0)
        assert line.loss.most == max(lost, timedelta(0))
        if line.loss.saved_at is not None or attempt.first_seen_at <= attempt.ended_at:
            assert line.loss.lost == line.loss.most
        assert line.loss.node_seconds == line.loss.lost.total_seconds() * row.node_count
        assert line.loss.cpu_seconds == line.loss.lost.total_seconds() * row.cpu_count
        assert line.loss.gpu_seconds == line.loss.lost.total_seconds() * row.gpu_count
        assert line.partition == "main"
    return lines


class Forgetful(SqueueSource):
    """A slurmctld that forgets at once what has ended, as any does after MinJobAge."""

    def read_queue(self, now):
        snapshot = super().read_queue(now)
        assert isinstance(snapshot, QueueSnapshot), snapshot
        return replace(snapshot, jobs=tuple(job for job in snapshot.jobs if job.state not in ENDED_STATES))
