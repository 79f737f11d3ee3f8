"""Opens what the daemon keeps on disk, for itself and for the commands."""

import os
import pwd
from pathlib import Path

from sqlalchemy.engine import make_url

from ckptd.config import Config
from ckptd.errors import CkptdError
from ckptd.store.store import Store


class StateError(CkptdError):
    """What the daemon keeps on disk cannot be made or read."""


def make_state_directory(directory: Path) -> None:
    """Make the state directory where it is not there.

    Raises:
        StateError: it cannot be made.

    """
    try:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(
            f"the state directory {str(directory)!r} cannot be made: {error.strerror}: set service.state_directory"
        ) from error


def open_store(config: Config, *, is_upgraded: bool) -> Store:
    """Open the database, upgrading its tables first where asked for."""
    url = make_url(config.database_url)
    if config.store.password_file:
        url = url.set(password=_read_password(config.store.password_file))
    return Store.open(url.render_as_string(hide_password=False), upgrade=is_upgraded)


def _read_password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        account = pwd.getpwuid(os.geteuid()).pw_name
        raise StateError(f"store.password_file: {account} cannot read {str(path)!r}: {reason}") from error
