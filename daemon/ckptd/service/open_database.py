"""Opens the database and the state directory, for the daemon and for commands."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import make_url

from ckptd.service.database_lock import DatabaseLockError, find_locked
from ckptd.service.password_file import StateError, read_password
from ckptd.store.database_errors import DatabaseAwayError, SchemaError
from ckptd.store.engine import create_engine
from ckptd.store.store import Store

if TYPE_CHECKING:  # commands that copy databases do without the whole configuration
    from ckptd.config import Config


def make_state_directory(directory: Path) -> None:
    """Create the state directory if it does not exist.

    Raises:
        StateError: it cannot be created.

    """
    try:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(
            f"cannot create the state directory {str(directory)!r}: {error.strerror}; create it for"
            " the daemon's account, or set service.state_directory"
        ) from error


def open_store(config: "Config", *, is_upgraded: bool) -> Store:
    """Open the database; upgrade its tables first if asked to, unless a daemon uses those of an older version.

    The password is read again for each connection, so that it can be changed while the daemon runs.

    Raises:
        SchemaError: its tables do not match this version, or a daemon of the older version uses them.
        StoreError: it cannot be reached.

    """
    path = config.store.password_file
    url = add_password(config.database_url, path)
    locked = _find_daemon(url) if is_upgraded else None
    again = partial(_read_password_again, path) if path else None
    try:
        return Store.open(url, upgrade=is_upgraded and locked is None, read_password=again)
    except SchemaError as error:
        if locked is None:
            raise
        raise SchemaError(f"{error}; a daemon still uses it (it has the lock {locked}): stop it first") from error


def _read_password_again(path: Path) -> str:
    """Return the password; a file that could be read before may be incomplete while it is replaced.

    Raises:
        DatabaseAwayError: it cannot be read now.

    """
    try:
        return read_password(path)
    except StateError as error:
        raise DatabaseAwayError(str(error)) from error


def _find_daemon(url: str) -> Path | None:
    """Return the lock of a daemon that uses a SQLite database; None if there is none, or for PostgreSQL."""
    engine = create_engine(url)
    path = engine.url.database
    if engine.dialect.name != "sqlite" or not path:
        return None
    with suppress(DatabaseLockError):  # where a lock cannot be opened, SQLite says what is wrong with the directory
        return find_locked(Path(path))
    return None


def add_password(database_url: str, password_file: Path | None, setting: str = "store.password_file") -> str:
    """Return an address with the password from a file, if there is one."""
    if password_file is None:
        return database_url
    url = make_url(database_url).set(password=read_password(password_file, setting))
    return url.render_as_string(hide_password=False)
