"""Checks accounts, directories and files: who must be able to use them, and who must not."""

import os
import pwd
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from ckptd.config import Config
from ckptd.errors import CkptdError
from ckptd.present.formatting import format_size
from ckptd.service.accounts import list_unknown_accounts, list_unknown_denials
from ckptd.service.doctor.findings import CheckResult, error, ok, warning
from ckptd.store import sqlite_access

_MIN_FREE_BYTES = 2**30
_FULL_BYTES = 2**24
_SECRETS = frozenset({"store.password_file", "mail.password_file", "apprise.urls_file", "slurm.rest_token_file"})


def check_accounts(config: Config) -> Iterator[CheckResult]:
    """Check the accounts that the configuration names."""
    for trouble in list_unknown_accounts(config):
        yield error(trouble, "create the account, for example with systemd-sysusers, or correct the name")
    for trouble in list_unknown_denials(config):
        yield warning(trouble, "correct the name: the agent refuses nobody because of it")
    if config.service.user:
        yield from _check_service_user(config.service.user)
    elif os.geteuid() == 0:
        yield warning(
            "no service.user is configured, so the main process would keep root's privileges",
            "set it as the unit of this package does: Environment=CKPTD_SERVICE__USER=ckptd",
        )


def _check_service_user(name: str) -> Iterator[CheckResult]:
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        return
    if user.pw_uid == 0:
        yield error(f"service.user {name} has uid 0", "use an account of its own without privileges")
    else:
        yield ok(f"service.user {name} exists, uid {user.pw_uid}")


def check_state_directory(config: Config) -> Iterator[CheckResult]:
    """Check that the main process can write to the state directory, and that nobody else can."""
    path = config.state_directory
    try:
        status = path.stat()
    except FileNotFoundError:
        if os.access(next(each for each in path.parents if each.exists()), os.W_OK | os.X_OK):
            yield ok(f"{path} does not exist yet: the daemon creates it at its start")
        else:
            owner = f"--owner={config.service.user} " if config.service.user else ""
            yield error(f"the state directory {path} does not exist", f"`install --directory {owner}{path}`")
        return
    except OSError as failure:
        yield error(f"{path}: {failure.strerror}", "correct service.state_directory or the rights above it")
        return
    if not stat.S_ISDIR(status.st_mode):
        yield error(f"{path} is no directory", "correct service.state_directory, or move the file away")
        return
    if sqlite_access.is_read_only(path):
        advice = "mount it read-write, or correct service.state_directory"
        yield error(f"the file system of the state directory {path} is mounted read-only", advice)
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        owner = config.service.user or _name_account()
        yield error(f"this account cannot write to the state directory {path}", f"`chown {owner} {path}`")
    elif status.st_mode & stat.S_IWOTH:
        yield error(f"everyone can write to the state directory {path}", f"`chmod o-w {path}`")
    else:
        yield ok(f"this account can write to the state directory {path}")
    free = shutil.disk_usage(path).free
    if free < _FULL_BYTES:
        yield error(f"{path}: {format_size(free)} free", "free space: nothing can be recorded")
    elif free < _MIN_FREE_BYTES:
        yield warning(f"{path}: only {format_size(free)} free", "free space: a full disk stops all records")


def _name_account() -> str:
    """Return the account of this process, which is the one that checks; its number if it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def check_service_files(config: Config) -> Iterator[CheckResult]:
    """Check the files that the main process reads."""
    for setting, path in config.list_files().items():
        yield _check_readable(setting, path, is_secret=setting in _SECRETS)
    if config.web.config_file and os.access(config.web.config_file, os.R_OK):
        yield from _check_web_config(config.web.config_file)
    if config.mail.templates:
        yield _check_readable("mail.templates", config.mail.templates, is_secret=False)


def check_agent_files(config: Config) -> Iterator[CheckResult]:
    """Check the program that the agent runs as the owner of a directory."""
    if config.scan.quota_command:
        program = config.scan.quota_command[0]
        if shutil.which(program) is None:
            yield error(f"scan.quota_command: {program} cannot be run", "install it, or correct its path")
        else:
            yield ok(f"scan.quota_command: {program} can be run")


def _check_readable(setting: str, path: Path, *, is_secret: bool) -> CheckResult:
    try:
        mode = path.stat().st_mode
        if not os.access(path, os.R_OK):
            return error(f"{setting}: this account cannot read {path}", "let the account read it, and its directories")
    except OSError as failure:
        return error(f"{setting}: {path}: {failure.strerror}", "correct the path, or the rights of its directories")
    if is_secret and mode & stat.S_IROTH:
        return warning(f"{setting}: everyone can read {path}", f"`chmod o-r {path}`")
    return ok(f"{setting}: this account can read {path}")


def _check_web_config(path: Path) -> Iterator[CheckResult]:
    from ckptd.web.web_config import WebConfig  # noqa: PLC0415 - it loads bcrypt and yaml, which few sites need here

    try:
        WebConfig(path)
    except CkptdError as failure:
        yield error(f"web.config_file: {failure}", "correct the file")
    else:
        yield ok(f"web.config_file: {path} is valid")
