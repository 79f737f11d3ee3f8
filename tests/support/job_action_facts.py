"""Runs that want something done for their jobs, and agents that note what is done or answer as Slurm would."""

from dataclasses import replace
from pathlib import PurePosixPath

from ckptd.core.job_actions.resubmit_policy import TimedOutRun
from ckptd.core.model import EndCause, JobState, Unknown, UserSettings
from ckptd.steps import act
from core.histories import RUN, at, attempt, history, job, saved

WISHES = UserSettings(is_resubmitted=True, max_resubmits=3)
REQUEUED = [attempt(number, number + 0.9, restart_count=number) for number in range(3)]
LOOPING = history(
    now=5,
    jobs=[job(partition="gpu1", array_job_id=1, array_task_id=7)],
    attempts=REQUEUED,
    flagged=frozenset({("restart-loop", 1)}),
)


class Recorder:
    """An agent that notes what is on record when it is asked."""

    def __init__(self, store, answer):
        self.store, self.answer, self.asked = store, answer, []
        self.now = ("RUNNING", 0)

    def run(self, batches):
        (batch,) = batches
        argv = batch.items[0]["argv"]
        if argv[0] == "squeue":
            return [[{"output": say_now(argv, *self.now)}]]
        self.asked.append((batch.uid, argv, self.store.audit.list_newest("c1", unfinished_only=True)))
        return [[self.answer]]


def say_now(argv, state, restart_count):
    """What squeue says when it is asked once more, right before an act."""
    values = {"State": state, "RestartCnt": str(restart_count)}
    fields = [each.partition(":") for each in argv[-1].split(",")]
    return "".join(f"{values[name]}{end}" for name, _, end in fields) + "\n"


SHOWN = "JobId=1 JobName=x\n   ReqNodeList=(null) ExcNodeList=n7\n   StdOut=/home/alice/my out\n"
SHOWN += "   MailUser=alice MailType=END\n"
AWAY = "scontrol ended with 1: Unable to contact slurm controller (connect failure)"
SCRIPT = "#!/bin/sh\nsleep 1\n"
TIMED_OUT = replace(attempt(0, 60, cause=EndCause.TIME_LIMIT), state=JobState.TIMEOUT, partition="gpu1")
WISHING = history(jobs=(), attempts=[TIMED_OUT], checkpoints=[saved(50, step=5)], user_settings=WISHES)
FINISHED = TimedOutRun(
    job=job(partition="gpu1", work_dir=PurePosixPath("/home/alice"), state=JobState.TIMEOUT),
    attempt=TIMED_OUT,
    is_final=True,
    has_successor=False,
    resubmit_count=1,
)


class Slurm:
    """An agent whose commands answer as Slurm's would; `refused` programs fail."""

    def __init__(self, line="sbatch -c3", *, script=SCRIPT, command="(null)", refused=()):
        self.line, self.script, self.command, self.refused = line, script, command, refused
        self.submitted, self.signalled = [], 0

    def run(self, batches):
        return [[self.answer(item) for item in batch.items] for batch in batches]

    def answer(self, item):
        program, *words = item["argv"]
        if program in self.refused:
            return Unknown(what="command", reason=f"{program} ended with 1")
        if program == "scontrol":
            return {"output": SHOWN if "show" in words else self.script}
        if program == "sacct":
            (end,) = (word.removeprefix("--delimiter=") for word in words if word.startswith("--delimiter="))
            return {"output": f"{self.line}{end}\n"}
        if program == "squeue" and words[-1].startswith("State:"):
            return {"output": say_now(words, "RUNNING", 0)}
        if program == "squeue":
            fields = [each.partition(":") for each in words[-1].split(",")]
            return {
                "output": "".join((self.command if f == "Command" else "(null)") + end for f, _, end in fields) + "\n"
            }
        if program == "sbatch":
            self.submitted.append(item)
        self.signalled += program == "scancel"
        return {"output": "77;c1\n"}


def resubmit(parts, marked=None, now=61):
    return [outcome for _, outcome in act.act(parts, {RUN: WISHING}, {RUN: FINISHED}, marked or {}, at(now)).done]
