"""Reads the database's password from the file that the configuration names."""

import os
import pwd
from pathlib import Path

from ckptd.errors import CkptdError


class StateError(CkptdError):
    """A file or directory of the daemon's state cannot be created or read."""


def read_password(path: Path) -> str:
    """Return the password in a file.

    Raises:
        StateError: this account cannot read it.

    """
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        account = pwd.getpwuid(os.geteuid()).pw_name
        raise StateError(f"store.password_file: {account} cannot read {str(path)!r}: {reason}") from error
