"""Submits, follows and cancels verification jobs, in the agent's child that has become their owner.

Which partition, account and limits they have comes from the site's configuration alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ckptd.core.model import JobState
from ckptd.core.verification import job_policy
from ckptd.core.verification.job_policy import VerifyJobPolicy
from ckptd.core.verification.skip_reasons import SkipReason
from ckptd.errors import CkptdError
from ckptd.slurm import failure_reasons
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.queue_text import STATES, Separators

Runner = Callable[[dict[str, Any]], dict[str, Any]]  # runs `argv` and returns its `output`
NO_ACCOUNTING = "supported accounting_storage plugin"  # sacctmgr's, where slurm.conf names none
UNKNOWN_JOB = "Invalid job id specified"  # slurmctld's words for a job that it no longer keeps
_FIELDS = ("ArrayJobID", "ArrayTaskID", "State")
# of the failures of sbatch, those after which nobody knows whether there is a job
_UNCERTAIN = frozenset({FailureReason.DOWN, FailureReason.TIMED_OUT, FailureReason.RATE_LIMITED})


class VerifyJobError(CkptdError):
    """Slurm's answer about a verification job cannot be used."""


class QueuedTasks(NamedTuple):
    """The tasks of a job that the queue shows, also those that ended a short time ago."""

    job_id: int | None
    states: dict[int, JobState]


def submit(
    policy: VerifyJobPolicy, ticket: str, numbers: Sequence[int], directory: str, user: str, run: Runner
) -> dict[str, Any]:
    """Submit tasks of a ticket; return the `job_id`, or why it is `refused`.

    Raises:
        CkptdError: Slurm did not answer, so that the job may have been submitted.

    """
    try:
        missing = find_missing_allocation(policy, user, run)
    except CkptdError as error:
        return refuse(SkipReason.REFUSED, f"accounting did not answer: {error}")
    if missing:
        return refuse(SkipReason.NO_ALLOCATION, missing)
    others = list_queued(user, run) - {job_policy.name_job(ticket)}
    if len(others) >= policy.max_jobs:
        return refuse(SkipReason.FULL, f"user {user} has {len(others)} verification jobs already")
    script = job_policy.format_script(policy, directory)
    try:
        answer = run({"argv": job_policy.plan_submission(policy, ticket, numbers), "input": script})
    except CkptdError as error:
        if failure_reasons.find_reason(str(error)) in _UNCERTAIN:
            raise
        return refuse(SkipReason.REFUSED, str(error))
    job_id = str(answer["output"]).partition(";")[0].strip()
    if not job_id.isdecimal():
        raise VerifyJobError(f"sbatch printed {job_id[:40]!r} instead of a job id")
    return {"job_id": int(job_id)}


def refuse(reason: SkipReason, detail: str) -> dict[str, Any]:
    """Return the answer for a job that was not submitted."""
    return {"refused": detail, "reason": reason.value}


def find_missing_allocation(policy: VerifyJobPolicy, user: str, run: Runner) -> str | None:
    """Return why accounting does not let this user submit there; None if it does, or if there is no accounting.

    Without accounting, sbatch decides.

    Raises:
        CkptdError: accounting does not answer.

    """
    where = [f"user={user}", *([f"cluster={policy.cluster}"] if policy.cluster else [])]
    head = ["sacctmgr", "--readonly", "--noheader", "--parsable2", "show", "associations", "where"]
    try:
        text = str(run({"argv": [*head, *where, "format=Account,Partition,QOS"]})["output"])
    except CkptdError as error:
        if NO_ACCOUNTING in str(error):
            return None
        raise
    # administrators name all of these, and none of the names contains a bar
    rows = [row for line in text.splitlines() if len(row := line.split("|")) == 3]
    accounts = [row for row in rows if not policy.account or row[0] == policy.account]
    if not accounts:
        return f"user {user} has no association with account {policy.account}" if policy.account else _no_account(user)
    places = [row for row in accounts if not row[1] or row[1] in policy.partition.split(",")]
    if not places:
        return f"user {user} has no association with partition {policy.partition}"
    if policy.qos and not any(not row[2] or policy.qos in row[2].split(",") for row in places):
        return f"user {user} may not use QOS {policy.qos}"
    return None


def list_queued(user: str, run: Runner) -> frozenset[str]:
    """Return the names of a user's verification jobs that wait or run.

    Raises:
        CkptdError: Slurm does not answer.

    """
    end = Separators.draw().record.decode()
    argv = ["squeue", "--noheader", "--local", f"--user={user}", "--Format", f"Name:{end}"]
    names = (name.strip() for name in str(run({"argv": argv})["output"]).split(end))
    return frozenset(name for name in names if name.startswith(f"{job_policy.JOB_NAME}-"))


def follow(ticket: str, job_id: int | None, uid: int, run: Runner) -> QueuedTasks:
    """Ask the queue for a ticket's tasks; where the job's id is not known, by its name.

    Raises:
        CkptdError: Slurm does not answer.

    """
    separators = Separators.draw()
    field, record = separators.field.decode(), separators.record.decode()
    suffixes = [field] * (len(_FIELDS) - 1) + [record]
    fields = ",".join(f"{name}:{suffix}" for name, suffix in zip(_FIELDS, suffixes, strict=True))
    whose = f"--jobs={job_id}" if job_id is not None else f"--user={uid}"
    head = ["squeue", "--noheader", "--local", "--array", "--states=all", f"--name={job_policy.name_job(ticket)}"]
    try:
        text = str(run({"argv": [*head, whose, "--Format", fields]})["output"])
    except CkptdError as error:
        if UNKNOWN_JOB in str(error):
            return QueuedTasks(job_id, {})
        raise
    rows = [line.split(field) for line in text.split(record)[:-1]]
    return _read_tasks(rows, job_id)


def cancel(ticket: str, job_id: int | None, uid: int, run: Runner) -> None:
    """Cancel a ticket's job. One that has ended already is no error.

    Raises:
        CkptdError: Slurm does not answer.

    """
    queued = follow(ticket, job_id, uid, run)
    if queued.job_id is None or not queued.states:
        return
    try:
        run({"argv": ["scancel", str(queued.job_id)]})
    except CkptdError as error:
        if UNKNOWN_JOB not in str(error):
            raise


def _read_tasks(rows: Sequence[Sequence[str]], job_id: int | None) -> QueuedTasks:
    """Return the tasks of the newest job among these rows: an older one of the ticket was tried before."""
    found: dict[int, dict[int, JobState]] = {}
    for row in rows:
        words = [word.strip() for word in row]
        if len(words) != len(_FIELDS) or not words[0].isdecimal():
            raise VerifyJobError("squeue did not print the requested fields")
        tasks = found.setdefault(int(words[0]), {})
        if words[1].isdecimal():
            tasks[int(words[1])] = STATES.get(words[2], JobState.UNKNOWN)
    if not found:
        return QueuedTasks(job_id, {})
    newest = max(found)
    return QueuedTasks(newest, found[newest])


def _no_account(user: str) -> str:
    return f"user {user} has no association in Slurm's accounting"
