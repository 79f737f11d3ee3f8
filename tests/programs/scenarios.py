"""What is done to the jobs of a program: each scenario is one run with a work directory of its own."""

import math
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from demo.processes import kill_processes, list_processes, read_command
from programs import truth

LARGEST_TORN = 60_000  # bytes of a save in whose middle a program is killed
SMALL_DISK = "size=1100k"  # five saves of the torch program
LARGE_DISK = "size=64m"
LIMIT_MINUTES = 2  # of a chain: a training may take half of one to start
FAILED_SAVES = 4  # before the disk is enlarged
URGENT_USER = "urgent"
_STAYS = 3600


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """How the attempts of a run end, and what every one but the first does at its start."""

    name: str
    later: str = "resume"
    saves_before: int = 5  # of the first attempt, before it is ended
    saves_after: int = 4  # of the last one
    end: str = "requeue"  # of the first attempt: requeue, limit, kill, preempt, node or by itself (array)
    # full, uncopied: none, because its disk is full for a while, or its copies end
    demanded: frozenset[str] = frozenset()  # the rules that must say so
    comment: str = ""
    has_copies: bool = False  # saves on a fast disk that the next attempt does not have, with copies on a slow one

    @property
    def is_requeued(self):
        """Whether the first attempt ends by a requeue of its job, by whomever."""
        return self.end in {"requeue", "kill", "preempt", "node"}

    @property
    def needs_own_node(self):
        return self.end in {"preempt", "node"}


SCENARIOS = (
    Scenario(name="requeue", comment="ckpt=ckpt"),
    Scenario(name="start-over", later="fresh", demanded=frozenset({"not-resuming"})),
    Scenario(name="older", later="older", demanded=frozenset({"not-resuming"})),
    Scenario(name="chain", end="limit", comment="ckpt=ckpt"),
    Scenario(name="chain-over", later="fresh", end="limit", demanded=frozenset({"not-resuming"})),
    Scenario(name="array", end="array"),
    Scenario(name="killed", end="kill", demanded=frozenset({"damaged-checkpoint"})),
    Scenario(name="preempted", end="preempt"),
    Scenario(name="node-failure", end="node"),
    Scenario(name="disk-full", end="full", demanded=frozenset({"no-room"}), saves_before=3),
    Scenario(name="two-tiers", comment="ckpt=ckpt:copies", has_copies=True),
    Scenario(
        name="copies-end",
        end="uncopied",
        comment="ckpt=ckpt:copies",
        has_copies=True,
        demanded=frozenset({"copy-behind"}),
        saves_after=8,
    ),
)


@dataclass
class Run:
    """One scenario of one program while it goes on."""

    scenario: Scenario
    program: Any
    user: Any
    truth: Path
    work_dir: Path
    jobs: list[int] = field(default_factory=list)
    node: str = ""  # one that no other run has
    stage: str = "first"
    changed_at: float = 0.0
    attempts: list[truth.AttemptTruth] = field(default_factory=list)

    @property
    def name(self):
        return f"{self.program.NAME} {self.scenario.name}"

    @property
    def directory(self):
        return self.work_dir / "ckpt"

    @property
    def copies(self):
        return self.work_dir / "copies"

    @property
    def is_over(self):
        return self.stage == "over"


def list_groups(programs, scenarios, size):
    """Return the runs, each a program and a scenario, in groups of at most `size` that are as even as can be."""
    runs = [(program, each) for program in programs for each in scenarios if each.name not in program.LEFT_OUT]
    count = math.ceil(len(runs) / size)
    ends = [len(runs) * number // count for number in range(count + 1)]
    return [runs[begin:end] for begin, end in pairwise(ends)]


class Driver:
    """Submits the jobs and does to them what their scenarios say."""

    def __init__(self, cluster, inputs, environment, save_seconds, own_nodes):
        self._cluster = cluster
        self._own_nodes = own_nodes
        self._free_nodes = list(own_nodes)
        self._inputs = inputs
        self._environment = environment
        self._save_seconds = save_seconds

    def begin(self, scenario, program, user, truth_path):
        """Submit the jobs of a scenario."""
        work_dir = user.home / scenario.name
        work_dir.mkdir()
        os.chown(work_dir, user.uid, user.gid)
        run = Run(scenario, program, user, truth_path, work_dir)
        options = [f"--job-name={program.NAME}-{scenario.name}", "--time=60"]
        if scenario.needs_own_node:
            run.node = self._free_nodes.pop()
            options.append(f"--nodelist={run.node}")
        elif self._own_nodes:
            options.append(f"--exclude={','.join(self._own_nodes)}")
        if scenario.end == "full":
            self._mount_disk(run, SMALL_DISK)
        if scenario.has_copies:
            self._mount_disk(run, LARGE_DISK)
        if scenario.comment:
            options.append(f"--comment={scenario.comment}")
        if scenario.end == "array":
            options.append("--array=1-3%1")
        if scenario.end == "limit":
            options.append(f"--time={LIMIT_MINUTES}")
        first = self._submit(run, options)
        if scenario.end == "limit":
            self._submit(run, [*options, "--time=60", f"--dependency=afterany:{first}"])
        return run

    def _submit(self, run, options):
        scenario = run.scenario
        environment = {
            **self._environment,
            **run.program.list_options(scenario),
            "PROGRAM": run.program.NAME,
            "LATER": scenario.later,
            "TRUTH": str(run.truth),
            "INPUT": str(self._inputs),
            "SAVE_SECONDS": str(self._save_seconds),
            "SAVES": "4" if scenario.end == "array" else "",
            "STAY": str(_STAYS) if scenario.end == "kill" else "",
            "LARGEST_TORN": str(LARGEST_TORN),
            "COPIES": "yes" if scenario.has_copies else "",
            "OMP_NUM_THREADS": "1",
        }
        script = Path(self._environment["JOBS"]) / "job.sbatch"
        job = self._cluster.submit(run.user, script, *options, work_dir=run.work_dir, environment=environment)
        run.jobs.append(job)
        return job

    def advance(self, run):
        """Read what the run's programs logged, and take the next step of its scenario if it is due."""
        run.attempts = truth.read_attempts(run.truth, run.program)
        if not run.attempts or run.is_over:
            return
        first, last = run.attempts[0], run.attempts[-1]
        if run.scenario.end == "array":
            if len(run.attempts) == 3 and last.is_over:
                self._finish(run)
        elif run.stage == "first":
            self._go_on_with_first(run, first)
        elif run.stage == "uncopied" and len(list_uncopied(first)) > run.scenario.saves_after:
            self._cancel(run, last)
        elif run.stage == "filling" and len(first.torn) >= FAILED_SAVES:
            self._remount(run.directory, LARGE_DISK)
            run.stage = "roomy"
        elif run.stage == "roomy" and count_saves_after_failures(first) >= run.scenario.saves_after:
            self._cancel(run, last)
        elif run.stage == "dying" and first.program_ended_at and time.time() - first.program_ended_at > 25:
            self._clear(run)
            self._cluster.command("scontrol", "requeue", str(run.jobs[0]))
            run.stage = "later"
        elif run.stage == "later" and len(run.attempts) > 1 and len(last.saves) >= run.scenario.saves_after:
            self._cancel(run, last)

    def _go_on_with_first(self, run, first):
        """End the first attempt once it has saved enough; its time limit ends that of a chain."""
        if run.scenario.end == "limit":
            run.stage = "later" if len(run.attempts) > 1 else "first"
        elif len(first.saves) >= run.scenario.saves_before and not (run.scenario.has_copies and list_uncopied(first)):
            self._end_first(run, first)

    def _cancel(self, run, last):
        self._cluster.command("scancel", str(last.job_id))
        last.is_over = True
        self._finish(run)

    def _end_first(self, run, first):
        run.stage = "later"
        if run.scenario.end == "requeue":
            self._cluster.command("scontrol", "requeue", str(run.jobs[0]))
        elif run.scenario.end == "preempt":
            options = ["--partition=urgent", f"--nodelist={run.node}", "--exclusive", "--time=1"]
            self._cluster.submit(self._cluster.users[URGENT_USER], "#!/bin/sh\nsleep 5\n", *options)
        elif run.scenario.end == "node":
            self._fail_node(run)
        elif run.scenario.end == "full":
            run.stage = "filling"
        elif run.scenario.end == "uncopied":
            run.stage = "uncopied"
            Path(f"{run.truth}.stop").touch()
        elif run.scenario.end == "kill":
            run.stage = "dying"
            if run.program.DIES_BY_ITSELF:
                Path(f"{run.truth}.kill").touch()
            else:
                limiter = str(Path(self._environment["JOBS"]) / "limit-files")
                self._cluster.command(limiter, str(first.program_pid), str(LARGEST_TORN), user=run.user)
                os.kill(first.program_pid, signal.SIGCONT)

    def _fail_node(self, run):
        """Let a node lose its power, with all that runs on it, and start again."""
        job = str(run.jobs[0])
        kill_processes(lambda: list_processes_of(self._cluster.directory, run.user.uid, job))
        self._cluster.kill_node(run.node)
        self._cluster.wait_for("the job to be requeued", lambda: self._cluster.read_job(job, "%T") != "RUNNING")
        self._cluster.start_node(run.node)

    def _mount_disk(self, run, size):
        run.directory.mkdir()
        options = f"{size},mode=755,uid={run.user.uid},gid={run.user.gid}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "disk", run.directory], check=True)

    def _remount(self, directory, size):
        subprocess.run(["mount", "-o", f"remount,{size}", directory], check=True)

    def _clear(self, run):
        Path(f"{run.truth}.kill").unlink(missing_ok=True)

    def _finish(self, run):
        run.stage = "over"
        run.changed_at = time.time()


def count_saves_after_failures(attempt):
    """Count the saves after the last one that failed."""
    last = max((save.at for save in attempt.torn), default=0.0)
    return sum(save.at > last for save in attempt.saves)


def list_uncopied(attempt):
    """List the saves of an attempt that were not copied to the slow directory."""
    copied = truth.find_copied(attempt)
    return [save for save in attempt.saves if copied is None or save.at > copied.at]


def list_processes_of(directory, uid, job):
    """List the processes of one job of a user and the slurmstepd that supervise them."""
    told = f"SLURM_JOB_ID={job}".encode()
    supervisor = f"slurmstepd: [{job}.".encode()
    return [
        pid
        for pid in list_processes(directory, {uid})
        if read_command(pid).startswith(supervisor) or told in read_environment(pid)
    ]


def read_environment(pid):
    """Read the variables of a process; empty once it is gone."""
    try:
        return Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
    except OSError:
        return []
