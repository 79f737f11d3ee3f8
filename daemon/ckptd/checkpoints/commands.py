"""Runs Slurm's commands as a job's owner, in the agent's child: no job is touched with more rights than theirs."""

import os
import pwd
import subprocess
from typing import Any

from ckptd.errors import CkptdError

PROGRAMS = frozenset({"scancel", "scontrol", "sbatch"})
TIMEOUT_SECONDS = 30
MAX_SCRIPT_BYTES = 4 << 20
_UMASK = 0o022  # sbatch hands its own on to the job
_KEPT = ("SLURM_CONF", "PATH", "LANG")


class CommandError(CkptdError):
    """A command of Slurm did not do what it should."""


def run_commands(item: dict[str, Any]) -> dict[str, Any]:
    """Run `argv`; where there is a `script_argv`, with what that prints as its input. Return what it printed.

    Raises:
        CommandError: one of them is not to be run here, fails, or prints no script.

    """
    script = None
    if item.get("script_argv"):
        script = _run(item["script_argv"], None)
        if not script.startswith(b"#!") or len(script) > MAX_SCRIPT_BYTES:
            raise CommandError(f"{item['script_argv'][0]} printed no batch script")
    return {"output": _run(item["argv"], script).decode("utf-8", "replace").strip()[:1000]}


def _run(argv: list[str], data: bytes | None) -> bytes:
    if argv[0] not in PROGRAMS:
        raise CommandError(f"{argv[0]} is no command that is run for a job")
    try:
        done = subprocess.run(  # noqa: S603 - the program is one of a fixed set, as the job's own user
            argv,
            input=data or b"",
            env=_environment(),
            cwd="/",
            umask=_UMASK,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{argv[0]}: {error}") from error
    stderr = done.stderr.decode("utf-8", "replace").strip()
    if done.returncode != 0 or (stderr and not done.stdout and data is None and "error" in stderr.lower()):
        raise CommandError(f"{argv[0]} ended with {done.returncode}: {stderr[:500]}")
    return done.stdout


def _environment() -> dict[str, str]:
    """Return what a login of this user would have; sbatch hands it on to the job."""
    user = pwd.getpwuid(os.geteuid())
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell}
