"""Runs that want something done for their jobs, and agents that note what is done or answer as Slurm would."""

import json
from dataclasses import replace
from pathlib import PurePosixPath

from ckptd.checkpoints.agent.client import SILENCE
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.agent.requests import complete
from ckptd.core.job_actions.resubmit_policy import TimedOutRun
from ckptd.core.model import EndCause, JobState, Unknown, UserSettings
from ckptd.errors import CkptdError
from ckptd.slurm import owner_actions
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


POLICY = RequestPolicy(signal_partitions=("*",), hold_partitions=("*",), resubmit_partitions=("*",))


class RefusedError(CkptdError):
    """What a command of a fake answers that fails."""


class HangingError(Exception):
    """A command of a fake does not answer at all."""


class Commands:
    """An agent whose operations on jobs are the real ones, over commands that answer as the test says."""

    def run(self, batches):
        return [[self._carry_out(batch, item) for item in batch.items] for batch in batches]

    def _carry_out(self, batch, item):
        self.asking = batch.uid
        item = complete(batch.operation, json.loads(json.dumps(item)), POLICY)
        operation = getattr(owner_actions, batch.operation)
        try:
            return operation(item, self._run, *(() if batch.operation == "reach" else (batch.uid,)))
        except HangingError:
            return SILENCE
        except CkptdError as error:
            return Unknown(what="command", reason=str(error))

    def _run(self, item):
        found = self.answer(item)
        if found is SILENCE:
            raise HangingError
        if isinstance(found, Unknown):
            raise RefusedError(found.reason)
        return found


class Recorder(Commands):
    """An agent that notes what is on record when it is asked."""

    def __init__(self, store, answer):
        self.store, self.told, self.asked = store, answer, []
        self.now = ("RUNNING", 0)

    def answer(self, item):
        argv = item["argv"]
        if argv[0] == "squeue":
            return {"output": say_now(argv, self.asking, *self.now)}
        self.asked.append((self.asking, argv, self.store.audit.list_newest("c1", unfinished_only=True)))
        return self.told


def say_now(argv, uid, state, restart_count, reason="None", **more):
    """What squeue says of a job when it is asked once more, right before an act."""
    (name,) = (word.removeprefix("--jobs=") for word in argv if word.startswith("--jobs="))
    values = {"JobID": name.partition("_")[0], "UserName": "alice", "UserID": str(uid), "Partition": "gpu1"}
    values |= {"State": state, "RestartCnt": str(restart_count), "Reason": reason, **more}
    fields = [each.partition(":") for each in argv[-1].split(",")]
    return "".join(f"{values.get(name, '(null)')}{end}" for name, _, end in fields) + "\n"


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


class Slurm(Commands):
    """An agent whose commands answer as Slurm's would; `refused` programs fail."""

    def __init__(self, line="sbatch -c3", *, script=SCRIPT, command="(null)", refused=(), now=("RUNNING", 0)):
        self.line, self.script, self.command, self.refused = line, script, command, refused
        self.submitted, self.signalled, self.now = [], 0, now

    def answer(self, item):
        program, *words = item["argv"]
        if program in self.refused:
            return Unknown(what="command", reason=f"{program} ended with 1")
        if program == "scontrol":
            return {"output": SHOWN if "show" in words else self.script}
        if program == "sacct":
            (end,) = (word.removeprefix("--delimiter=") for word in words if word.startswith("--delimiter="))
            return {"output": f"{self.line}{end}\n"}
        if program == "squeue":
            facts = {"WorkDir": "/home/alice", "Command": self.command, "TimeLimit": "1:00:00"}
            return {"output": say_now(words, self.asking, *self.now, **facts)}
        if program == "sbatch":
            self.submitted.append(item)
        self.signalled += program == "scancel"
        return {"output": "77;c1\n"}


class Ended(Slurm):
    """A Slurm that shows the job as timed out."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options, now=("TIMEOUT", 0))


def resubmit(parts, marked=None, now=61):
    return [outcome for _, outcome in act.act(parts, {RUN: WISHING}, {RUN: FINISHED}, marked or {}, at(now)).done]
