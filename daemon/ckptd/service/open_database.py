"""Opens the database and the state directory, for the daemon and for commands."""

from pathlib import Path

from sqlalchemy.engine import make_url

from ckptd.config import Config
from ckptd.service.password_file import StateError, read_password
from ckptd.store.store import Store


def make_state_directory(directory: Path) -> None:
    """Create the state directory if it does not exist.

    Raises:
        StateError: it cannot be created.

    """
    try:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(
            f"cannot create the state directory {str(directory)!r}: {error.strerror}; set service.state_directory"
        ) from error


def open_store(config: Config, *, is_upgraded: bool) -> Store:
    """Open the database; upgrade its tables first if asked to."""
    url = make_url(config.database_url)
    if config.store.password_file:
        url = url.set(password=read_password(config.store.password_file))
    return Store.open(url.render_as_string(hide_password=False), upgrade=is_upgraded)
