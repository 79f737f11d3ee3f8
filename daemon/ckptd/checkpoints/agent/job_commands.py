"""Runs Slurm's commands as a job's owner, in the agent's child, so that no command has more rights than the owner."""

import os
import pwd
import stat
import subprocess
from typing import Any

from ckptd.checkpoints.agent import confinement
from ckptd.errors import CkptdError

PROGRAMS = frozenset({"sacct", "sacctmgr", "sbatch", "scancel", "scontrol", "squeue"})
TIMEOUT_SECONDS = 30
MAX_OUTPUT_BYTES = 8 << 20  # Slurm's own bound of a batch script is half of it
_PRIVATE = 0o077
_KEPT = ("SLURM_CONF", "PATH", "LANG")


class CommandError(CkptdError):
    """A command of Slurm failed."""


def run_command(item: dict[str, Any]) -> dict[str, Any]:
    """Run `argv` in `directory` with `input` on stdin; return its output, invalid UTF-8 as lone surrogates.

    Its umask gives new files the read permissions of `like`, a file of the user: sbatch passes the umask to the job.

    Raises:
        CommandError: the command is not allowed here, fails, or prints too much.

    """
    argv, text = item["argv"], item.get("input", "")
    if argv[0] not in PROGRAMS:
        raise CommandError(f"{argv[0]} is no command that is run for a job")
    try:
        done = subprocess.run(  # noqa: S603 - the program is one of a fixed set, as the job's own user
            argv,
            input=text.encode("utf-8", "surrogateescape"),
            env=make_environment(),
            cwd=item.get("directory", "/"),
            umask=_umask_of(item.get("like", "")),
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            start_new_session=True,
            preexec_fn=confinement.hold_in_group,
        )
    except (OSError, subprocess.SubprocessError) as error:
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
    """Return the umask that matches a file's mode; without a file, one that denies access to all others."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return _PRIVATE
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        return _PRIVATE
    group, others = (_hide(status.st_mode >> shift) for shift in (3, 0))
    return group << 3 | others


def _hide(mode: int) -> int:
    """Return the bits to mask for a class of users with these permissions on a file."""
    return 0o7 if not mode & 0o4 else 0o2 if not mode & 0o2 else 0


def make_environment() -> dict[str, str]:
    """Return the environment of a login of this user, which sbatch passes to the job."""
    user = pwd.getpwuid(os.geteuid())
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell}
