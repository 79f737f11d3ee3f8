"""Builds the command that resubmits a job with the options of its first submission.

It uses the user's own options if Slurm's accounting has them and they can be parsed unambiguously; otherwise, the
options that the job's attributes show. It omits options that took effect at the first submission (start time,
dependencies) or that are only useful at a terminal. Every option is an argument of its own; no shell reads any of them.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ckptd.core.job_actions import sbatch_options
from ckptd.core.job_actions.sbatch_options import GivenOptions, SbatchOption
from ckptd.core.model import Attempt, Job, Unknown
from ckptd.core.queue import federation

# `squeue --Format` names of the attributes that are asked for
ATTRIBUTES = (
    "Command", "NumNodes", "NumTasks", "cpus-per-task", "NTPerNode", "Feature", "tres-per-node", "tres-per-job",
    "tres-per-socket", "tres-per-task", "tres-alloc", "ReqNodes", "Reservation", "Licenses", "STDOUT", "STDERR",
    "STDIN", "Nice", "OverSubscribe", "WCKey", "Requeue", "Contiguous", "Cluster",
)  # fmt: skip
# their names in `scontrol show job`, and those of sbatch's options
SHOWN = {"ExcNodeList": "exclude", "MailUser": "mail-user", "MailType": "mail-type"}
_ABSENT = frozenset({"", "(null)", "N/A", "0", "None", "Unknown"})
_OWN = frozenset(["array", "chdir", "comment", "job-name", "wrap"])  # known from the database
_SERVED = frozenset(["begin", "clusters", "dependency", "gid", "hold", "propagate", "uid"])
_FOR_PEOPLE = frozenset(["help", "parsable", "quiet", "test-only", "usage", "verbose", "version", "wait"])
_NEVER = frozenset(["help", "test-only", "usage", "version", "wait"])  # in a script, where they cannot be left out
_LEFT_OUT = _OWN | _SERVED | _FOR_PEOPLE
_BY_ATTRIBUTE = {
    "nodes": "NumNodes", "ntasks": "NumTasks", "cpus-per-task": "cpus-per-task", "ntasks-per-node": "NTPerNode",
    "constraint": "Feature", "nodelist": "ReqNodes", "reservation": "Reservation", "licenses": "Licenses",
    "output": "STDOUT", "nice": "Nice", "wckey": "WCKey",
}  # fmt: skip
_BY_GPUS = {"tres-per-job": "gpus", "tres-per-socket": "gpus-per-socket", "tres-per-task": "gpus-per-task"}
# what a job without its command line is submitted with again, in one word or another
_TOLD = _LEFT_OUT | _BY_ATTRIBUTE.keys() | set(_BY_GPUS.values()) | set(SHOWN.values()) | {
    "account", "contiguous", "error", "exclusive", "gpus-per-node", "gres", "input", "kill-on-invalid-dep", "mem",
    "mem-per-cpu", "mem-per-gpu", "no-requeue", "open-mode", "partition", "qos", "requeue", "tasks-per-node", "time",
    "tres-per-task",
}  # fmt: skip
_GPU = re.compile(r"(?:gres[:/])?gpu(?P<rest>[:=].+)?")
_MARK = re.compile(r"(?:^|\s)ckptd-resubmit=(\d{1,6})\.([0-9a-f]{16})(?=$|\s)")
_MEMORY = re.compile(r"(?:^|,)mem=(\d+(?:\.\d+)?)([KMGTP]?)")
_KIBIBYTES = {"K": 1, "": 1024, "M": 1024, "G": 1024**2, "T": 1024**3, "P": 1024**4}


class ResubmitMark(NamedTuple):
    """The mark in the comment of a job that ckptd submitted: the end that it continues, and its number in a row."""

    number: int
    end: str


def mark_of(comment: str) -> ResubmitMark | None:
    """Return the mark in a job's comment."""
    found = _MARK.search(comment) if "ckptd-resubmit=" in comment else None
    return ResubmitMark(int(found[1]), found[2]) if found else None


def name_end(attempt: Attempt) -> str:
    """Return the name in a mark of the end that a job continues, from data that every daemon's database has."""
    name = f"{attempt.job.job_id}/{attempt.restart_count}/{attempt.started_at.timestamp():.0f}"
    return hashlib.blake2b(name.encode(), digest_size=8).hexdigest()


class JobSubmission(NamedTuple):
    """Slurm's data about a job: its script, its attributes, and its submit line if accounting keeps it."""

    script: str
    attributes: Mapping[str, str]  # by the names of ATTRIBUTES
    line: str | None
    shown: Mapping[str, str] | Unknown  # by those of SHOWN


def plan_command(job: Job, submission: JobSubmission, mark: ResubmitMark) -> list[str] | Unknown:
    """Return the command that submits the job's script, from its standard input, once more."""
    if submission.line and len(submission.line) > sbatch_options.MAX_CHARACTERS:
        return Unknown(what="resubmission", reason="its submit line is too long")
    given = _read_given(job, submission)
    if any(option.name in _NEVER for option in sbatch_options.read_directives(submission.script)):
        return Unknown(what="resubmission", reason="its script has an option such as --wait or --test-only")
    lost = _find_lost(job, submission) if given is None else None
    if lost is not None:
        return Unknown(what="resubmission", reason=f"its submit line cannot be parsed: {lost}")
    arguments = _read_arguments(job, submission.attributes, given)
    if isinstance(arguments, Unknown):
        return arguments
    if given is None and federation.is_federated(job.job_id):
        return Unknown(what="resubmission", reason="the clusters it was submitted to are unknown")
    cluster = _read_cluster(job, submission)
    if isinstance(cluster, Unknown):
        return cluster
    kept = _keep(given.options, federation.is_federated(job.job_id)) if given else _rebuild(submission)
    if isinstance(kept, Unknown):
        return kept
    own = [
        SbatchOption("job-name", job.name or None),
        SbatchOption("comment", f"{_MARK.sub('', job.comment)} ckptd-resubmit={mark.number}.{mark.end}".lstrip()),
        SbatchOption("chdir", str(job.work_dir) if job.work_dir else None),
        SbatchOption("array", None if job.array_task_id is None else str(job.array_task_id)),
        SbatchOption("clusters", cluster),
    ]
    stated = {option.name for option in (*sbatch_options.read_directives(submission.script), *kept)}
    options = [*own, *(option for option in _effective(job) if option.name not in stated)]
    # the limits of whoever calls sbatch would become the job's: none is handed on
    argv = ["sbatch", "--parsable", "--propagate=NONE", *(option.word for option in options if option.value)]
    return [*argv, *(option.word for option in kept), *(["/dev/stdin", *arguments] if arguments else [])]


def _read_given(job: Job, submission: JobSubmission) -> GivenOptions | None:
    """Return the user's own command line; None if there is none or it is ambiguous."""
    known = sbatch_options.known_texts(job)
    given = sbatch_options.parse_line(submission.line, known, submission.script) if submission.line else None
    if given is None or any(
        option.name == "export-file" and (option.value or "").isdigit() for option in given.options
    ):
        return None
    command = _value(submission.attributes, "Command") or ""
    if not given.rest:
        return given if not command else None
    shown = " ".join([given.rest[0].rpartition("/")[2], *given.rest[1:]])
    return given if command.endswith(f"/{shown}") else None


def _read_cluster(job: Job, submission: JobSubmission) -> str | Unknown | None:
    """Return the job's cluster if its script names clusters, among which sbatch would choose; None if it names none."""
    named = any(option.name == "clusters" for option in sbatch_options.read_directives(submission.script))
    if not named or federation.is_federated(job.job_id):
        return None
    unknown = Unknown(what="resubmission", reason="its script names clusters, and Slurm does not show the job's own")
    return _value(submission.attributes, "Cluster") or unknown


def _find_lost(job: Job, submission: JobSubmission) -> str | None:
    """Return a word of an ambiguous command line that may be an option without an attribute."""
    arguments = " ".join(_split_command(job, submission.attributes)[1:])
    line = (submission.line or "").removesuffix(f" {arguments}" if arguments else "")
    return sbatch_options.find_other(line, sbatch_options.known_texts(job), _TOLD)


def _split_command(job: Job, attributes: Mapping[str, str]) -> list[str]:
    """Return the script and its arguments, which Slurm shows joined by blanks; those of its directory are no ends."""
    command = _value(attributes, "Command") or ""
    return command.removeprefix(f"{job.work_dir}/" if job.work_dir else "").split(" ")


def _read_arguments(job: Job, attributes: Mapping[str, str], given: GivenOptions | None) -> list[str] | Unknown:
    """Return the script's argument; with several words, it is unknown which belong together."""
    words = list(given.rest) if given else _split_command(job, attributes)
    if len(words) > 2 or any(not word or any(mark in word for mark in "'\"\t\n") for word in words[1:]):
        return Unknown(what="resubmission", reason="the arguments of its script cannot be parsed")
    return words[1:]


def _keep(options: Iterable[SbatchOption], is_federated: bool) -> list[SbatchOption]:
    kept: list[SbatchOption] = []
    for option in options:
        if option.name == "dependency" and "singleton" in re.split("[,?]", option.value or ""):
            kept.append(SbatchOption("dependency", "singleton"))
        elif option.name not in _LEFT_OUT or (option.name == "clusters" and is_federated):
            kept.append(option)
    return kept


def _effective(job: Job) -> list[SbatchOption]:
    """Return the options in effect for the job, also those from environment variables and defaults."""
    minutes = max(int(job.time_limit.total_seconds()) // 60, 1) if job.time_limit else None
    return [
        SbatchOption("partition", _present(job.partition)),
        SbatchOption("account", _present(job.account)),
        SbatchOption("qos", _present(job.qos)),
        SbatchOption("time", None if minutes is None else str(minutes)),
    ]


def _rebuild(submission: JobSubmission) -> list[SbatchOption] | Unknown:
    """Return options that give a job the same resources and attributes."""
    attributes = submission.attributes
    if isinstance(submission.shown, Unknown):
        return submission.shown
    options = [SbatchOption(name, _value(attributes, attribute)) for name, attribute in _BY_ATTRIBUTE.items()]
    options += [SbatchOption(name, _value(submission.shown, attribute)) for attribute, name in SHOWN.items()]
    output, errors = _value(attributes, "STDOUT"), _value(attributes, "STDERR")
    options.append(SbatchOption("error", errors if errors != output else None))
    source = _value(attributes, "STDIN")
    options.append(SbatchOption("input", source if source != "/dev/null" else None))
    options.append(SbatchOption("mem", _memory_per_node(attributes)))
    found = [option for option in options if option.value is not None]
    if attributes.get("OverSubscribe") in {"NO", "EXCLUSIVE"}:
        found.append(SbatchOption("exclusive", None))
    if attributes.get("Contiguous") in {"1", "yes"}:
        found.append(SbatchOption("contiguous", None))
    found.append(SbatchOption("no-requeue" if attributes.get("Requeue") == "0" else "requeue", None))
    if not any(option.name == "open-mode" for option in sbatch_options.read_directives(submission.script)):
        found.append(SbatchOption("open-mode", "append"))  # Slurm does not tell which; this one never empties a file
    return _add_resources(found, attributes)


def _add_resources(found: list[SbatchOption], attributes: Mapping[str, str]) -> list[SbatchOption] | Unknown:
    """Add the requests per node, job, socket and task; all but the first exist for GPUs only."""
    per_node = _value(attributes, "tres-per-node")
    if per_node:
        found.append(SbatchOption("gres", re.sub(r"(^|,)gres[:/]", r"\1", per_node)))
    for attribute, name in _BY_GPUS.items():
        asked = _value(attributes, attribute)
        # newer Slurm counts a task's processors among its resources
        wanted = [each for each in (asked or "").split(",") if each and not each.startswith("cpu")]
        if not wanted:
            continue
        gpu = _GPU.fullmatch(wanted[0])
        if gpu is None or len(wanted) > 1:
            return Unknown(what="resubmission", reason=f"no option of sbatch is known for its {attribute} {asked!r}")
        found.append(SbatchOption(name, (gpu["rest"] or ":1")[1:]))
    return found


def _memory_per_node(attributes: Mapping[str, str]) -> str | None:
    """Return the memory per node, because Slurm does not show whether it was requested per node or per CPU."""
    memory = _MEMORY.search(attributes.get("tres-alloc", ""))
    nodes = _value(attributes, "NumNodes")
    if memory is None or nodes is None:
        return None
    return f"{-int(-float(memory[1]) * _KIBIBYTES[memory[2]] // int(nodes))}K"


def _value(attributes: Mapping[str, str], name: str) -> str | None:
    return _present(attributes.get(name, ""))


def _present(text: str) -> str | None:
    return None if text in _ABSENT else text
