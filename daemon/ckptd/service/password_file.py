"""Reads the database's password from the file that the configuration names."""

import os
import pwd
from pathlib import Path

from ckptd.errors import CkptdError


class StateError(CkptdError):
    """A file or directory of the daemon's state cannot be created or read."""


def read_password(path: Path, setting: str = "store.password_file") -> str:
    """Return the password in a file that this setting names.

    Raises:
        StateError: this account cannot read it, or it is empty.

    """
    try:
        password = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise StateError(f"{setting}: {_name_account()} cannot read {str(path)!r}: {reason}") from error
    if not password:
        raise StateError(f"{setting}: {str(path)!r} is empty")
    return password


def _name_account() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"
