"""Checks Slurm's programs, cluster, clock and visibility, as the account that runs them."""

import os
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from ckptd.config import Config
from ckptd.core.model import Unknown
from ckptd.service.doctor.findings import CheckResult, error, ok, warning
from ckptd.slurm import accounting
from ckptd.slurm.cluster_facts import ClusterFacts
from ckptd.slurm.controller_clock import read_clock
from ckptd.slurm.programs import Programs
from ckptd.slurm.pyslurm_source import PyslurmSource
from ckptd.slurm.rest_client import RestClient
from ckptd.slurm.slurmrestd import SlurmrestdSource, read_path

MAX_CLOCK_DIFFERENCE = timedelta(seconds=60)
_NOT_FOUND = "install Slurm's client programs on this host, or extend PATH of the unit"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_NO_ANSWER = "check slurmctld, MUNGE and slurm.conf of this host: `scontrol ping`, `munge -n | unmunge`"
_MAKE_OPERATOR = "make it one with `sacctmgr add user USER account=... adminlevel=operator`"


def check_service(config: Config) -> Iterator[CheckResult]:
    """Check what the main process asks Slurm."""
    if config.slurm.source == "replay":
        yield ok("the queue is replayed from recorded snapshots; Slurm is not used")
        return
    programs = _programs(config)
    versions = yield from _check_programs(programs, ("squeue", "sacct", "scontrol"))
    if config.slurm.source == "pyslurm":
        yield _check_pyslurm(programs, config)
    if "scontrol" not in versions:
        return
    if not accounting.is_answering(programs):
        yield error("`scontrol ping` finds no controller that is up", _NO_ANSWER)
        return
    yield from _check_cluster(programs, config)
    yield from _check_visibility(programs, config)
    yield from _check_clock(programs)
    if config.actions.summary:
        yield _check_summary(programs, config)
    if config.slurm.source == "slurmrestd":
        yield from _check_rest(config)


def check_agent(config: Config) -> Iterator[CheckResult]:
    """Check the programs that the agent runs as the owners of jobs."""
    if config.slurm.source == "replay":
        return
    submits = config.actions.resubmit or config.verify_jobs.partition is not None
    wanted = {"scontrol": True, "scancel": bool(config.actions.signal), "sbatch": submits}
    yield from _check_programs(_programs(config), [name for name, is_needed in wanted.items() if is_needed])


def _programs(config: Config) -> Programs:
    return Programs(timeout_seconds=min(config.slurm.timeout.total_seconds(), 10.0))


def _check_programs(programs: Programs, names: Sequence[str]) -> Generator[CheckResult, None, dict[str, str]]:
    """Yield what is wrong with the programs; return the versions of those that work."""
    versions: dict[str, str] = {}
    for name in names:
        answer = programs.read(name, [name, "--version"])
        if isinstance(answer, Unknown):
            yield error(f"{name}: {answer.reason}", _NOT_FOUND)
        elif not answer[1].is_clean:
            yield error(f"{name} --version failed: {' '.join(answer[1].stderr.split())}", _NO_ANSWER)
        else:
            versions[name] = answer[0].strip().removeprefix("slurm ").removeprefix("slurm-wlm ")
    if len(set(versions.values())) == 1:
        yield ok(f"{', '.join(versions)}: version {next(iter(versions.values()))}")
    elif versions:
        listed = ", ".join(f"{name} {version}" for name, version in versions.items())
        yield warning(f"Slurm's programs have different versions: {listed}", "install one version, or correct PATH")
    return versions


def _check_cluster(programs: Programs, config: Config) -> Iterator[CheckResult]:
    name = ClusterFacts(programs, None).read_name()
    if isinstance(name, Unknown):
        yield error(f"the cluster's name is not known: {name.reason}", _NO_ANSWER)
    elif config.slurm.cluster not in {None, name}:
        yield warning(
            f"slurm.cluster is {config.slurm.cluster!r}, but ClusterName of slurm.conf is {name!r}",
            "correct slurm.cluster, unless the records shall keep the other name",
        )
    else:
        yield ok(f"slurmctld answers; the cluster is {name!r}")


def _check_visibility(programs: Programs, config: Config) -> Iterator[CheckResult]:
    facts = ClusterFacts(programs, config.slurm.cluster)
    hidden = facts.read_hidden_jobs(())
    if hidden is None:
        yield ok("this account sees the jobs of all users")
    else:
        yield error(hidden.reason, _MAKE_OPERATOR)
    if not config.slurm.backfill:
        return
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    answer = programs.read("accounting", ["sacct", "--noheader", "--starttime", started, "--format", "jobid"])
    if isinstance(answer, Unknown):
        yield error(f"sacct: {answer.reason}", _NOT_FOUND)
    elif not answer[1].is_clean:
        reason = " ".join(answer[1].stderr.split()) or f"exit status {answer[1].returncode}"
        yield warning(
            f"accounting does not answer: {reason}",
            "check slurmdbd; without one, set slurm.backfill = false",
        )
    elif hidden_history := facts.read_hidden_history(()):
        yield error(hidden_history.reason, _MAKE_OPERATOR)
    else:
        yield ok("accounting answers")


def _check_summary(programs: Programs, config: Config) -> CheckResult:
    may_administrate = ClusterFacts(programs, config.slurm.cluster).read_may_administrate()
    if isinstance(may_administrate, Unknown):
        reason = f"whether this account may write AdminComment is not known: {may_administrate.reason}"
        return warning(reason, "check slurmdbd, or unset actions.summary")
    if may_administrate:
        return ok("this account may write AdminComment")
    return error(
        "actions.summary: this account may not write AdminComment, because it is no Slurm administrator",
        "make it one with `sacctmgr add user USER account=... adminlevel=administrator`, or unset actions.summary",
    )


def _check_pyslurm(programs: Programs, config: Config) -> CheckResult:
    version = PyslurmSource(cluster=config.slurm.cluster, programs=programs).read_version()
    if isinstance(version, Unknown):
        return error(f"pyslurm: {version.reason}", 'install ckptd[pyslurm], or use slurm.source = "auto"')
    return ok(f"pyslurm {version} can be loaded")


def _check_rest(config: Config) -> Iterator[CheckResult]:
    url, token_file = config.slurm.rest_url, config.slurm.rest_token_file
    client = RestClient(url=url, token_file=token_file, timeout_seconds=config.slurm.timeout.total_seconds())
    path = read_path(client)
    source = SlurmrestdSource(client, cluster=config.slurm.cluster, programs=_programs(config))
    # slurmrestd offers its versions to everybody: only the queue shows whether the token is valid
    queue = path if isinstance(path, Unknown) else source.read_queue(datetime.now(UTC))
    if isinstance(queue, Unknown):
        yield error(f"slurmrestd: {queue.reason}", "check slurm.rest_url, slurm.rest_token_file and slurmrestd's log")
    else:
        yield ok(f"slurmrestd answers with {len(queue.jobs)} jobs; ckptd reads {path}")
    parts = urlsplit(url)
    if token_file is not None and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        yield warning(
            f"slurm.rest_url: the token goes to {parts.hostname} unencrypted",
            "use https:// through a proxy with TLS, or slurmrestd's socket on this host",
        )


def _check_clock(programs: Programs) -> Iterator[CheckResult]:
    at = read_clock(programs)
    if isinstance(at, Unknown):
        yield warning(f"slurmctld's clock cannot be read: {at.reason}", _NO_ANSWER)
        return
    difference = abs(datetime.now(UTC) - at)
    text = f"this host's clock differs from slurmctld's by {difference.total_seconds():.0f} s"
    if difference > MAX_CLOCK_DIFFERENCE:
        yield error(text, f"synchronise the clock of {os.uname().nodename}: `timedatectl`, `chronyc tracking`")
    else:
        yield ok(text)
