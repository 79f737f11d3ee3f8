"""Slurm commands for actions on jobs, and parsers of their answers.

The agent runs them as the job's user. Only `write_summary` runs here, as ckptd's account, because only administrators
may change AdminComment.
"""

import re
from collections.abc import Sequence

from ckptd.core.model import Job, Unknown
from ckptd.core.queue import federation
from ckptd.slurm import failure_reasons
from ckptd.slurm.programs import Programs
from ckptd.slurm.queue_text import Separators

_EXCLUDED = re.compile(r"^ +ReqNodeList=\S* ExcNodeList=(\S*) *$", re.MULTILINE)
_PRINTED = re.compile(r"^ +StdOut=(.*)$", re.MULTILINE)
_MAILED = re.compile(r"^ +MailUser=(.*) MailType=(\S*) *$", re.MULTILINE)


def format_signal(job: Job, signal: str) -> list[str]:
    """Return the command that sends a signal as `sbatch --signal` would: to the steps, or `B:` to the batch shell."""
    argv = ["scancel", f"--signal={signal.removeprefix('B:')}"]
    if not federation.is_federated(job.job_id):  # scancel would check the state on the cluster of the submission
        argv.append("--state=RUNNING")
    return [*argv, *(["--batch"] if signal.startswith("B:") else []), job.slurm_name]


def format_hold(job: Job) -> list[str]:
    """Return the command that holds a job; a running one is requeued and held."""
    return ["scontrol", "requeuehold" if job.is_running else "hold", job.slurm_name]


def format_script(job: Job) -> list[str]:
    """Return the command that prints a job's batch script."""
    return ["scontrol", "write", "batch_script", str(job.job_id), "-"]


def format_line(job: Job, separators: Separators) -> list[str]:
    """Return the command that prints a job's submit line, for `parse_line`."""
    head = ["sacct", "--local", "--noheader", "--parsable", f"--delimiter={separators.field.decode()}", "--allocations"]
    return [*head, "--format=SubmitLine", f"--jobs={job.slurm_name}"]


def parse_line(text: str, separators: Separators) -> str | None:
    """Return the submit line; None if accounting has none or lists several jobs."""
    line, *more = text.split(separators.field.decode())
    return line if line and len(more) == 1 and not more[0].strip() else None


def format_attributes(job: Job, names: Sequence[str], separators: Separators) -> list[str]:
    """Return the command that prints attributes of a job by squeue's names, for the two functions below."""
    ends = [separators.field.decode()] * (len(names) - 1) + [separators.record.decode()]
    fields = ",".join(f"{name}:{end}" for name, end in zip(names, ends, strict=True))
    head = ["squeue", "--noheader", "--local", "--noconvert", "--states=all"]
    return [*head, f"--jobs={job.slurm_name}", "--Format", fields]


def parse_components(text: str, names: Sequence[str], separators: Separators) -> list[dict[str, str]] | Unknown:
    """Return the attributes by name of each component of a heterogeneous job; of any other job, one set.

    Unknown unless the answer has at least one, and each has all attributes.
    """
    *records, tail = text.split(separators.record.decode())
    found = [record.removeprefix("\n").split(separators.field.decode()) for record in records]
    if not found or tail.strip() or any(len(values) != len(names) for values in found):
        counts = ", ".join(str(len(values)) for values in found) or "no"
        return Unknown(what="attributes", reason=f"{counts} attributes instead of {len(names)}")
    return [dict(zip(names, values, strict=True)) for values in found]


def parse_attributes(text: str, names: Sequence[str], separators: Separators) -> dict[str, str] | Unknown:
    """Return the attributes by name; Unknown unless the answer has exactly one job with all of them."""
    found = parse_components(text, names, separators)
    if isinstance(found, Unknown):
        return found
    return found[0] if len(found) == 1 else Unknown(what="attributes", reason=f"{len(found)} jobs instead of one")


def format_shown(job: Job) -> list[str]:
    """Return the command that prints the attributes that `squeue` lacks, for `parse_shown`."""
    return ["scontrol", "--local", "show", "job", job.slurm_name]


def parse_shown(text: str) -> dict[str, str] | Unknown:
    """Return a job's mail user and types, excluded nodes and output file from `scontrol show job`.

    The same text contains fields that the job's user wrote, which may imitate these attributes. An attribute that
    occurs several times is therefore not used.
    """
    excluded, mailed = _EXCLUDED.findall(text), _MAILED.findall(text)
    if len(excluded) != 1 or len(mailed) > 1:
        return Unknown(what="attributes", reason="what scontrol shows of its nodes and mail cannot be told apart")
    user, kinds = mailed[0] if mailed else ("", "")
    printed = _PRINTED.findall(text)
    output = printed[0] if len(printed) == 1 else ""
    return {"ExcNodeList": excluded[0], "MailUser": user, "MailType": kinds, "StdOut": output}


def write_summary(programs: Programs, job: Job, text: str) -> Unknown | None:
    """Write a job's AdminComment; return Unknown with the reason if Slurm refuses."""
    argv = ["scontrol", "update", f"JobId={job.slurm_name}", f"AdminComment={text}"]
    answer = programs.read("admin comment", argv)
    if isinstance(answer, Unknown):
        return answer
    finished = answer[1]
    return (
        None if finished.is_clean else failure_reasons.classify("admin comment", finished.returncode, finished.stderr)
    )
