"""Runs Slurm's commands as a job's owner, in the agent's child: no job is touched with more rights than theirs."""

import os
import pwd
import stat
import subprocess
from typing import Any

from ckptd.errors import CkptdError

PROGRAMS = frozenset({"sacct", "sbatch", "scancel", "scontrol", "squeue"})
TIMEOUT_SECONDS = 30
MAX_OUTPUT_BYTES = 8 << 20  # Slurm's own bound of a batch script is half of it
_PRIVATE = 0o077
_KEPT = ("SLURM_CONF", "PATH", "LANG")


class CommandError(CkptdError):
    """A command of Slurm did not do what it should."""


def run_command(item: dict[str, Any]) -> dict[str, Any]:
    """Run `argv` with `input` as its input, in `directory`; return what it printed, other bytes as lone surrogates.

    What it makes may be read by those who may read `like`, a file of the user's: sbatch hands its umask on to the job.

    Raises:
        CommandError: it is not to be run here, fails, or prints too much.

    """
    argv, text = item["argv"], item.get("input", "")
    if argv[0] not in PROGRAMS:
        raise CommandError(f"{argv[0]} is no command that is run for a job")
    try:
        done = subprocess.run(  # noqa: S603 - the program is one of a fixed set, as the job's own user
            argv,
            input=text.encode("utf-8", "surrogateescape"),
            env=_environment(),
            cwd=item.get("directory", "/"),
            umask=_umask_of(item.get("like", "")),
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{argv[0]}: {error}") from error
    stderr = done.stderr.decode("utf-8", "replace").strip()
    # scontrol complains with exit status 0 (22.05)
    has_complained = any(word in stderr.lower() for word in ("error", "failed"))
    if done.returncode != 0 or (has_complained and not done.stdout):
        raise CommandError(f"{argv[0]} ended with {done.returncode}: {stderr[:500]}")
    if len(done.stdout) > MAX_OUTPUT_BYTES:
        raise CommandError(f"{argv[0]} printed {len(done.stdout)} bytes")
    return {"output": done.stdout.decode("utf-8", "surrogateescape")}


def _umask_of(path: str) -> int:
    """Return the umask that a file was made with, as its mode tells; one that lets nobody else in where none does."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return _PRIVATE
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        return _PRIVATE
    group, others = (_hide(status.st_mode >> shift) for shift in (3, 0))
    return group << 3 | others


def _hide(mode: int) -> int:
    """Return what is to be masked for people who may do that with a file."""
    return 0o7 if not mode & 0o4 else 0o2 if not mode & 0o2 else 0


def _environment() -> dict[str, str]:
    """Return what a login of this user would have; sbatch hands it on to the job."""
    user = pwd.getpwuid(os.geteuid())
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell}
