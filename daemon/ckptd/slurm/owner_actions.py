"""Carries out a typed request about a job, in the agent's child that has become the job's owner.

The request names the job and the action. Everything else comes from Slurm: the job's partition, in which the
configuration must allow the action, its state, its script, and how it was submitted. The request contains no command
line and no script.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from ckptd.core.job_actions import sbatch_command
from ckptd.core.job_actions.sbatch_command import JobSubmission, ResubmitMark
from ckptd.core.model import ENDED_STATES, Job, JobState, Unknown
from ckptd.core.queue import federation
from ckptd.errors import CkptdError
from ckptd.slurm import commands, queue_text, times
from ckptd.slurm.queue_text import Separators

Runner = Callable[[dict[str, Any]], dict[str, Any]]  # runs `argv` and returns its `output`
SIGNAL = re.compile(r"(?:B:)?(?:SIG)?[A-Z][A-Z0-9+-]{0,15}|(?:B:)?[1-9][0-9]?")
MARK = re.compile(r"[0-9a-f]{16}")
_NAMES = (
    "JobID", "UserName", "UserID", "Account", "Partition", "QOS", "Name", "WorkDir", "Comment", "State", "RestartCnt",
    "TimeLimit", "Reason", "HetJobID",
)  # fmt: skip


class ActionError(CkptdError):
    """The configuration does not allow the action, or Slurm did not report what it depends on."""


def reach(item: Mapping[str, Any], run: Runner) -> dict[str, Any]:
    """Start a program in a directory; if its file system hangs, so does this call, and its caller gets no answer."""
    run({"argv": ["scontrol", "--version"], "directory": item["work_dir"]})
    return {}


def read_submission(item: Mapping[str, Any], run: Runner, uid: int) -> dict[str, Any]:
    """Return a job's `script`, and the command `line` that submitted it if accounting has it."""
    if not item["partitions"]:
        raise ActionError("the configuration allows no action that needs a job's script")
    job = describe_job(item, uid)
    return {"script": _read_script(job, run), "line": _read_line(job, run)}


def signal_job(item: Mapping[str, Any], run: Runner, uid: int) -> dict[str, Any]:
    """Send a signal to the attempt that the request means, if it still runs."""
    if not SIGNAL.fullmatch(item["signal"]):
        raise ActionError(f"{item['signal'][:20]!r} is no signal")
    return _act(item, run, uid, lambda job: commands.format_signal(job, item["signal"]), is_running=True)


def hold_job(item: Mapping[str, Any], run: Runner, uid: int) -> dict[str, Any]:
    """Keep a job from starting again, ending the attempt that the request means where it runs.

    A job that is held already is left as it is.
    """
    return _act(item, run, uid, commands.format_hold, is_running=False)


def resubmit_job(item: Mapping[str, Any], run: Runner, uid: int) -> dict[str, Any]:
    """Submit an ended job's own script with its own options once more, with a mark in its comment."""
    mark = ResubmitMark(item["number"], item["mark"])
    if not MARK.fullmatch(mark.end) or not 0 < mark.number <= item["max_resubmits"]:
        raise ActionError(f"resubmission {mark.number} is not allowed: max_resubmits is {item['max_resubmits']}")
    try:
        job = read_job(describe_job(item, uid), run)
        check_partition(job, item)
        if job.state not in ENDED_STATES and not federation.is_federated(job.job_id):
            return {"failed": f"the job is {job.state.value}, and has not ended", "is_question": False}
        submission = _read_told(job, run)
    except CkptdError as error:
        return {"failed": str(error), "is_question": True}
    argv = sbatch_command.plan_command(job, submission, mark)
    if isinstance(argv, Unknown):
        return {"failed": argv.reason, "is_question": False}
    output = "" if isinstance(submission.shown, Unknown) else submission.shown["StdOut"]
    answer = run({"argv": argv, "input": submission.script, "directory": str(job.work_dir or "/"), "like": output})
    return {"output": answer["output"], "argv": argv, "has_submit_line": bool(submission.line)}


def _act(
    item: Mapping[str, Any], run: Runner, uid: int, format_command: Callable[[Job], list[str]], *, is_running: bool
) -> dict[str, Any]:
    """Poll the job again, and run the command unless the requested attempt has ended.

    Slurm would requeue even a job that has ended or that its user cancelled, and an attempt that started meanwhile may
    not be ready for a signal.
    """
    job = describe_job(item, uid)
    if federation.is_federated(job.job_id):  # squeue may not find it by its job id here
        if not item["partitions"]:
            raise ActionError("the configuration does not allow this action")
        run({"argv": format_command(job)})
        return {}
    try:
        now = read_job(job, run)
        check_partition(now, item)
    except CkptdError as error:
        return {"failed": str(error), "is_question": True}
    if now.state in ENDED_STATES:
        return {"not_needed": "the job has ended"}
    if not is_running and now.is_held:
        return {"not_needed": "the job is held already"}
    if now.is_running and now.restart_count != job.restart_count:
        return {"not_needed": "another attempt of the job runs"}
    if is_running and not now.is_running:
        return {"not_needed": "the job no longer runs"}
    run({"argv": format_command(now)})
    return {}


def describe_job(item: Mapping[str, Any], uid: int) -> Job:
    """Return the job as the request describes it: its ids, and whether it runs for a federation."""
    return Job(
        cluster="",
        job_id=item["job_id"],
        array_job_id=item["array_job_id"],
        array_task_id=item["array_task_id"],
        user="",
        uid=uid,
        state=JobState.RUNNING if item["is_running"] else JobState.PENDING,
        restart_count=item["restart_count"],
    )


def read_job(job: Job, run: Runner) -> Job:
    """Return the job as Slurm shows it; a heterogeneous one as its first component, in the partitions of all.

    Raises:
        ActionError: it is another user's job, or Slurm's answer cannot be read.
        CkptdError: Slurm does not answer.

    """
    separators = Separators.draw()
    argv = commands.format_attributes(job, _NAMES, separators)
    components = commands.parse_components(run({"argv": argv})["output"], _NAMES, separators)
    if isinstance(components, Unknown):
        raise ActionError(components.reason)
    if len(components) > 1 and any(each["HetJobID"] != str(job.job_id) for each in components):
        raise ActionError(f"Slurm shows {len(components)} jobs by the name {job.slurm_name}")  # tasks of an array
    found = next((each for each in components if each["JobID"] == str(job.job_id)), components[0])
    known = {name: "" if text in queue_text.ABSENT else text for name, text in found.items()}
    if known["UserID"] != str(job.uid):
        raise ActionError(f"job {job.slurm_name} does not belong to uid {job.uid}")
    if known["JobID"] != str(job.job_id) and not federation.is_federated(job.job_id):
        raise ActionError(f"Slurm shows another job than {job.job_id} by the name {job.slurm_name}")
    if not known["RestartCnt"].isdecimal():
        raise ActionError(f"a restart count of {known['RestartCnt'][:20]!r}")
    try:
        limit = times.parse_duration(known["TimeLimit"])
    except ValueError as error:
        raise ActionError(str(error)) from error
    return Job(
        cluster="",
        job_id=job.job_id,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        user=known["UserName"],
        uid=job.uid,
        account=known["Account"],
        partition=",".join(dict.fromkeys(each["Partition"] for each in components)),
        qos=known["QOS"],
        name=known["Name"],
        state=queue_text.STATES.get(known["State"], JobState.UNKNOWN),
        restart_count=int(known["RestartCnt"]),
        time_limit=limit,
        work_dir=PurePosixPath(known["WorkDir"]) if known["WorkDir"] else None,
        comment=known["Comment"],
        reason=known["Reason"],
    )


def check_partition(job: Job, item: Mapping[str, Any]) -> None:
    """Refuse a job of a partition that the configuration does not name; one of several partitions needs all."""
    names = [name for name in job.partition.split(",") if name]
    if not names or not all(_is_named(name, item["partitions"]) for name in names):
        raise ActionError(f"the configuration does not allow this action in partition {job.partition[:100]!r}")


def _is_named(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _read_told(job: Job, run: Runner) -> JobSubmission:
    """Return a job's script, the command that submitted it, and its options, from Slurm."""
    separators, names = Separators.draw(), sbatch_command.ATTRIBUTES
    script = _read_script(job, run)
    line = _read_line(job, run)
    queued = run({"argv": commands.format_attributes(job, names, separators)})
    attributes = commands.parse_attributes(queued["output"], names, separators)
    if isinstance(attributes, Unknown):
        raise ActionError(attributes.reason)
    shown: dict[str, str] | Unknown
    try:
        shown = commands.parse_shown(run({"argv": commands.format_shown(job)})["output"])
    except CkptdError as error:
        shown = Unknown(what="attributes", reason=str(error))
    return JobSubmission(script, attributes, line, shown)


def _read_script(job: Job, run: Runner) -> str:
    script = str(run({"argv": commands.format_script(job)})["output"])
    if not script.startswith("#!"):
        raise ActionError("Slurm printed no batch script")
    return script


def _read_line(job: Job, run: Runner) -> str | None:
    separators = Separators.draw()
    try:
        answer = run({"argv": commands.format_line(job, separators)})
    except CkptdError:
        return None
    return commands.parse_line(answer["output"], separators)
