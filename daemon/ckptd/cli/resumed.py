"""`ckptd resumed`: let a job record what it loaded. Every failure is only a warning: it must not end the job."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import click

from ckptd.core.model import DeclaredResume, Unknown
from ckptd.core.runs.declared_resume import DIRECTORY, FILE, LONGEST_PATH
from ckptd.present.formatting import safe

_SECONDS = 10.0  # how long a job waits for a file system
_NUMBER = re.compile(r"[0-9]{1,18}")


@click.command()
@click.argument("path")
@click.option(
    "--directory",
    metavar="DIR",
    help="Write to DIR/.ckptd/resumed. Default: the current directory, and the one that the job was submitted from.",
)
def resumed(path: str, directory: str | None) -> None:
    """Record in a job that it resumes from the checkpoint at PATH.

    One line is appended to .ckptd/resumed in the job's working directory. The daemon reads it with its next scan, and
    believes it unless the job's progress contradicts it. Only the first task of a step writes. If nothing
    can be recorded, the command prints a warning and the exit status is still 0.
    """
    try:
        _record(path, directory, os.environ, datetime.now(UTC))
    except Exception as error:  # noqa: BLE001 - a job must not end because recording failed
        _warn(f"{type(error).__name__}: {error}")


def _record(path: str, directory: str | None, environment: Mapping[str, str], now: datetime) -> None:
    job_id = _read_number(environment, "SLURM_JOB_ID")
    if job_id is None:
        _warn("SLURM_JOB_ID is not set, so this is not a job")
    elif not path or "\0" in path or len(os.fsencode(path)) > LONGEST_PATH:
        _warn("the path is empty or too long")
    elif (_read_number(environment, "SLURM_PROCID") or 0) == 0:
        said = DeclaredResume(
            path=os.path.join(os.getcwd(), path),
            cluster=environment.get("SLURM_CLUSTER_NAME") or None,
            job_id=job_id,
            restart_count=_read_number(environment, "SLURM_RESTART_COUNT") or 0,
            said_at=now,
        )
        _write(said, [directory] if directory else _list_directories(environment))


def _list_directories(environment: Mapping[str, str]) -> list[str]:
    """Return the directories that may be the job's working directory; Slurm sets no variable for it.

    It is the current directory unless the script changed it, and the submit directory unless `--chdir` names another.
    """
    return list(dict.fromkeys([os.getcwd(), environment.get("SLURM_SUBMIT_DIR") or os.getcwd()]))


def _read_number(environment: Mapping[str, str], name: str) -> int | None:
    value = environment.get(name, "")
    return int(value) if _NUMBER.fullmatch(value) else None


def _write(said: DeclaredResume, directories: list[str]) -> None:
    """Write in a child process, so that a dead file system cannot hang the job."""
    from ckptd.checkpoints.agent import abandonable_child  # noqa: PLC0415 - wrong usage needs none of it
    from ckptd.checkpoints.scanning import resumed_file  # noqa: PLC0415

    def work(_progress: object) -> list[str]:
        real = os.path.realpath(said.path)
        line = replace(said, real_path=real if real != said.path else None)
        problems = []
        for each in directories:
            try:
                resumed_file.append(each, line)
            except (OSError, resumed_file.NotOwnFileError) as error:
                problems.append(f"{each}/{DIRECTORY}/{FILE}: {getattr(error, 'strerror', None) or error}")
        return problems if len(problems) == len(directories) else []

    problems = abandonable_child.run(work, _SECONDS)
    for problem in [problems.reason] if isinstance(problems, Unknown) else problems:
        _warn(problem)


def _warn(reason: str) -> None:
    click.echo(f"ckptd resumed: not recorded: {safe(reason)}", err=True)
