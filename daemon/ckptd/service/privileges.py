"""Gives up root in the main process, once the agent and the watcher have been started."""

import os
import pwd
from pathlib import Path

from ckptd.errors import CkptdError


class PrivilegeError(CkptdError):
    """The process cannot become the user that the configuration names."""


def become_service_user(name: str | None, state_directory: Path) -> None:
    """Permanently become the configured user, who becomes the owner of the state directory.

    Raises:
        PrivilegeError: there is no such user, or this process may not become it or give it the directory.

    """
    if name is None:
        return
    user = _find(name)
    if os.geteuid() == user.pw_uid:
        return
    if os.geteuid() != 0:
        raise PrivilegeError(f"service.user: only root can become {name!r}")
    _give(state_directory, user)
    _become(user)
    if not os.access(os.__file__, os.R_OK):
        raise PrivilegeError(
            f"service.user: {name!r} cannot read the Python that runs ckptd ({os.__file__}); install it where all can"
        )


def _give(state_directory: Path, user: pwd.struct_passwd) -> None:
    """Make the user the owner of the directory and the database; the shipped unit has done so before."""
    try:
        for path in (state_directory, *state_directory.glob("ckptd.sqlite3*")):
            if path.lstat().st_uid != user.pw_uid:
                os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
    except PermissionError as error:
        raise PrivilegeError(
            f"service.user: {str(state_directory)!r} belongs to another user, and the unit's sandbox keeps it so: run"
            f" `chown -R {user.pw_name}: {state_directory}`, and set CKPTD_SERVICE__USER={user.pw_name} in the unit"
        ) from error


def name_only_user() -> str | None:
    """Return the account whose jobs alone an unprivileged process watches; None for root, which watches all.

    Raises:
        PrivilegeError: this process's uid has no account.

    """
    if os.geteuid() == 0:
        return None
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError as error:
        raise PrivilegeError(
            f"uid {os.geteuid()} has no account on this host, so its jobs cannot be found: run ckptd as an account that"
            " Slurm knows, or as root"
        ) from error


def drop_root(name: str) -> None:
    """Permanently become the configured user if this process is root; change no file.

    Raises:
        PrivilegeError: there is no such user.

    """
    user = _find(name)
    if os.geteuid() == 0:
        _become(user)


def _find(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError as error:
        raise PrivilegeError(f"service.user: there is no user {name!r} on this machine") from error


def _become(user: pwd.struct_passwd) -> None:
    os.setgroups(os.getgrouplist(user.pw_name, user.pw_gid))
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    os.environ["HOME"] = user.pw_dir
