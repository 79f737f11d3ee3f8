"""Real Linux users for jobs, made for one cluster and removed with it."""

import grp
import os
import pwd
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from demo.errors import DemoError
from demo.patience import Deadline

PREFIX = "ck"  # every user of a private cluster begins so; nothing else is ever removed


@dataclass(frozen=True, kw_only=True)
class JobUser:
    """A Linux user that submits jobs."""

    name: str
    uid: int
    gid: int
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a login of this user would set."""
        return {
            "HOME": str(self.home),
            "USER": self.name,
            "LOGNAME": self.name,
            "SHELL": "/bin/bash",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }

    def command(self, *argv: str) -> list[str]:
        """Return the command line that runs `argv` as this user."""
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--init-groups", *argv]


def create_user(name: str, home: Path) -> JobUser:
    """Create the user and its empty home directory.

    Raises:
        DemoError: a user of that name is there already, or useradd refuses.

    """
    if not name.startswith(PREFIX):
        raise DemoError(f"the job user {name!r} must begin with {PREFIX!r}.")
    if _exists(name):
        raise DemoError(f"the user {name} exists already: end the other demo, or remove it with `userdel {name}`.")
    # fmt: off
    _run(["useradd", "--no-log-init", "--user-group", "--no-create-home", "--home-dir", str(home),
          "--shell", "/bin/bash", name])
    # fmt: on
    entry = pwd.getpwnam(name)
    home.mkdir(parents=True)
    os.chown(home, entry.pw_uid, entry.pw_gid)
    return JobUser(name=name, uid=entry.pw_uid, gid=entry.pw_gid, home=home)


def remove_user(name: str) -> None:
    """Remove the user and its group; one that is gone already is no error.

    Raises:
        DemoError: the name is not one of a private cluster, or userdel refuses.

    """
    if not name.startswith(PREFIX):
        raise DemoError(f"refusing to remove the user {name!r}, which is not one of a private cluster.")
    if _exists(name):
        _run(["userdel", "--force", name])
    if any(group.gr_name == name for group in grp.getgrall()):
        _run(["groupdel", name])


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _run(argv: Sequence[str]) -> None:
    """Run a command of the shadow suite, waiting for its lock where another holds it."""
    deadline = Deadline(20)
    while True:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        if "lock" not in done.stderr or deadline.has_passed():
            raise DemoError(f"{argv[0]} failed: {done.stderr.strip()}")
        time.sleep(0.2)
