"""Checks that Slurm knows what [verify_jobs] names, and that its limits let such jobs start.

sbatch refuses an unknown partition, and each owner's job would fail. By default (`EnforcePartLimits=NO`) it accepts a
time limit above that of the partition; the job then stays pending.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from ckptd.config import Config
from ckptd.core.model import Unknown
from ckptd.present.formatting import format_duration
from ckptd.service.doctor.findings import CheckResult, error, ok, warning
from ckptd.slurm import times
from ckptd.slurm.cluster_facts import ClusterFacts
from ckptd.slurm.programs import Programs

_ALL = frozenset({"ALL", "(null)", ""})
Report = Callable[[str, str], CheckResult]


def check_verify_jobs(config: Config) -> Iterator[CheckResult]:
    """Check the partitions, the account, the QOS and the limits of verification jobs."""
    wanted = config.verify_jobs
    if wanted.partition is None or config.slurm.source == "replay":
        return
    programs = Programs(timeout_seconds=min(config.slurm.timeout.total_seconds(), 10.0))
    found = [result for name in wanted.partition.split(",") for result in _check_partition(programs, config, name)]
    settings = ClusterFacts(programs, config.slurm.cluster).read_config()
    if isinstance(settings, Unknown):
        found.append(warning(f"Slurm's configuration is not known: {settings.reason}", "check slurmctld"))
    else:
        found += _check_array_size(config, settings)
        found += _check_accounting(programs, config, settings)
    yield from found
    if not found:
        yield ok(f"verify_jobs: jobs can be submitted to the partition {wanted.partition}")


def _check_partition(programs: Programs, config: Config, name: str) -> Iterator[CheckResult]:
    wanted = config.verify_jobs
    answer = programs.read("scontrol", ["scontrol", "--oneliner", "show", "partition", name])
    if isinstance(answer, Unknown):
        yield warning(f"whether the partition {name} exists is not known: {answer.reason}", "check slurmctld")
        return
    facts = dict(word.partition("=")[::2] for word in answer[0].split() if "=" in word)
    if "PartitionName" not in facts and "not found" not in answer[0]:
        reason = " ".join((answer[1].stderr or answer[0]).split())
        yield warning(f"whether the partition {name} exists is not known: {reason}", "check slurmctld")
        return
    if facts.get("PartitionName") != name:
        yield error(f"verify_jobs.partition: Slurm has no partition {name!r}", "name one that `sinfo` lists")
        return
    if facts.get("State") != "UP":
        state = facts.get("State")
        yield warning(
            f"verify_jobs.partition: {name} is in state {state}", f"scontrol update partition={name} state=up"
        )
    longest = _parse_limit(facts.get("MaxTime", ""))
    if longest is not None and wanted.time_limit > longest:
        text = f"verify_jobs.time_limit is {format_duration(wanted.time_limit)}, and MaxTime of {name} is"
        yield error(f"{text} {format_duration(longest)}", "lower verify_jobs.time_limit, or name another partition")
    for setting, given, allow, deny in (
        ("account", wanted.account, "AllowAccounts", "DenyAccounts"),
        ("qos", wanted.qos, "AllowQos", "DenyQos"),
    ):
        allowed = _list_names(facts.get(allow, "ALL"))
        is_denied = given in _list_names(facts.get(deny, ""))
        if given is not None and (is_denied or (allowed and given not in allowed)):
            text = f"verify_jobs.{setting}: {name} does not admit {given!r} ({deny if is_denied else allow})"
            yield error(text, f"name one that `scontrol show partition {name}` admits")


def _check_array_size(config: Config, settings: Mapping[str, str]) -> Iterator[CheckResult]:
    largest = settings.get("MaxArraySize", "")
    if largest.isdigit() and config.verify_jobs.max_tasks > int(largest):
        text = f"verify_jobs.max_tasks is {config.verify_jobs.max_tasks}, and MaxArraySize of slurm.conf is {largest}"
        yield error(text, "lower verify_jobs.max_tasks")


def _check_accounting(programs: Programs, config: Config, settings: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the names that accounting knows: Slurm ignores them unless it enforces associations, QOS and limits."""
    wanted = config.verify_jobs
    enforced = settings.get("AccountingStorageEnforce", "").lower().replace("none", "")

    def report(word: str) -> Report:
        return error if word in enforced or "all" in enforced.split(",") else warning

    if wanted.account is not None:
        found = _list_rows(programs, "account", wanted.account, "account")
        if not found or isinstance(found, Unknown):
            yield _describe_absent(report("associations"), "account", "account", wanted.account, found)
    if wanted.qos is not None:
        found = _list_rows(programs, "qos", wanted.qos, "name,maxwall")
        if not found or isinstance(found, Unknown):
            yield _describe_absent(report("qos"), "qos", "QOS", wanted.qos, found)
        elif (longest := _parse_limit(found[0].partition("|")[2])) is not None and wanted.time_limit > longest:
            text = (
                f"verify_jobs.time_limit is {format_duration(wanted.time_limit)}, and MaxWall of the QOS {wanted.qos}"
            )
            yield report("limits")(f"{text} is {format_duration(longest)}", "lower verify_jobs.time_limit")


def _describe_absent(report: Report, kind: str, title: str, name: str, found: list[str] | Unknown) -> CheckResult:
    """Return that accounting has no account or QOS of a name, or that this is not known."""
    if isinstance(found, Unknown):
        text = f"whether the {title} {name!r} exists is not known: {found.reason}"
        return warning(text, f"check slurmdbd: `sacctmgr show {kind}`")
    text = f"verify_jobs.{kind}: Slurm's accounting has no {title} {name!r}"
    return report(text, f"name one that `sacctmgr show {kind}` lists")


def _list_rows(programs: Programs, kind: str, name: str, columns: str) -> list[str] | Unknown:
    argv = ["sacctmgr", "--noheader", "--parsable2", "show", kind, name, f"format={columns}"]
    answer = programs.read("sacctmgr", argv)
    if isinstance(answer, Unknown):
        return answer
    if not answer[1].is_clean:
        reason = " ".join(answer[1].stderr.split()) or f"exit status {answer[1].returncode}"
        return Unknown(what="sacctmgr", reason=reason)
    return answer[0].splitlines()


def _list_names(text: str) -> frozenset[str]:
    """Return the names in a list of scontrol; empty if it names all or none."""
    return frozenset() if text in _ALL else frozenset(text.split(","))


def _parse_limit(text: str) -> timedelta | None:
    """Parse a time limit; None where there is none, or Slurm prints something else."""
    try:
        return times.parse_duration(text) if text else None
    except ValueError:
        return None
