"""Backs up, restores and copies the database, and keeps daemons from acting on two copies of it."""

import os
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import sqlalchemy as sa

from ckptd.errors import CkptdError
from ckptd.service.command_lease import take_lease
from ckptd.service.database_lock import find_locked
from ckptd.service.lease_keeper import LeaseHeldError, LeaseKeeper
from ckptd.store import schema, sqlite_backup
from ckptd.store.engine import create_engine
from ckptd.store.row_copies import CopiedTable, copy_rows
from ckptd.store.store import Store

_COPY = "copy.sqlite3"


class CopyError(CkptdError):
    """The database cannot be copied; the text says why."""


def back_up(url: str, path: Path) -> None:
    """Write one moment of the database to a new SQLite file, from which `restore` makes either kind of database.

    Raises:
        CkptdError: the database cannot be read, or the file exists already or cannot be written.

    """
    if os.path.lexists(path):
        raise CopyError(f"{path} exists already; a backup replaces no file")
    with _folder_in(path.parent) as folder:
        copy = folder / _COPY
        with _engine(url) as source:
            if found := _sqlite_path(source):
                with sqlite_backup.open_checked(found) as opened:
                    sqlite_backup.copy_into(opened, copy)
            else:
                schema.check(source)
                with _engine(f"sqlite:///{copy}") as target:
                    schema.upgrade(target)
                    copy_rows(source, target)
                _leave_one_file(copy)
        _place(copy, path)


def restore(path: Path, url: str) -> None:
    """Fill the empty database at an address from a backup, and upgrade the tables to this version.

    Raises:
        CkptdError: the backup is damaged, or newer than this version; the database is not empty, or a daemon uses it.

    """
    with sqlite_backup.open_checked(path) as backup, _engine(url) as target:
        found = _sqlite_path(target)
        with _owner_of(found.parent) if found else _nobody(), _folder_in(found.parent if found else None) as folder:
            if found and (locked := find_locked(found)):
                raise CopyError(f"a daemon still uses {found} (it has the lock {locked}): stop it first")
            if found and not os.path.lexists(found):
                _refuse_journals(found)
            copy = folder / _COPY
            sqlite_backup.copy_into(backup, copy)
            with _engine(f"sqlite:///{copy}") as prepared:
                schema.upgrade(prepared)
                if found is None or os.path.lexists(found):
                    schema.upgrade(target)
                    copy_rows(prepared, target)
                    return
            _leave_one_file(copy)
            _place(copy, found)


def copy(url: str, target_url: str, *, is_online: bool) -> tuple[CopiedTable, ...]:
    """Copy all rows to the empty database at another address, and compare them there.

    Unless `is_online`, nobody may act meanwhile: what a daemon does after the copy, one on the copy would do again.

    Raises:
        CkptdError: a daemon acts, a database cannot be used, the target is not empty, or a table differs.

    """
    with _engine(url) as source, _engine(target_url) as target, ExitStack() as held:
        schema.check(source)
        if target.dialect.name == "sqlite" and (target.url.database or ":memory:") == ":memory:":
            raise CopyError("the URL names no file, and the copy would end with this command; use sqlite:///PATH")
        if not is_online:
            _stop_others(url, held)
        if found := _sqlite_path(target):
            held.enter_context(_owner_of(found.parent))
        schema.upgrade(target)
        return copy_rows(source, target)


def _refuse_journals(path: Path) -> None:
    """Refuse files that SQLite would apply to a new database of this name: they are of the one before it.

    Raises:
        CopyError: there are some.

    """
    left = [each for ending in ("-wal", "-shm", "-journal") if os.path.lexists(each := f"{path}{ending}")]
    if left:
        raise CopyError(f"{' and '.join(left)}: left of a database that was moved away; move them to it first")


def _stop_others(url: str, held: ExitStack) -> None:
    """Hold the lease of every cluster of a database."""
    store = Store.open(url)
    held.callback(store.close)
    for cluster in store.leases.list_clusters():
        try:
            held.enter_context(take_lease(LeaseKeeper(store, cluster, "db copy")))
        except LeaseHeldError as error:
            raise CopyError(f"{error}, or add --online for a copy that no daemon will use") from error


@contextmanager
def _engine(url: str) -> Iterator[sa.Engine]:
    engine = create_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def _sqlite_path(engine: sa.Engine) -> Path | None:
    return Path(engine.url.database or "") if engine.dialect.name == "sqlite" else None


@contextmanager
def _folder_in(parent: Path | None) -> Iterator[Path]:
    """Make a private directory for unfinished files, and remove it with what is in it."""
    if parent is None:
        with tempfile.TemporaryDirectory(prefix="ckptd-") as temporary:
            yield Path(temporary)
        return
    folder = parent / f".ckptd-{secrets.token_hex(8)}"
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise CopyError(f"cannot write to {parent}: {error.strerror}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _place(made: Path, path: Path) -> None:
    """Give a finished file its name, durably, without replacing another one."""
    made.chmod(0o600)
    try:
        try:
            os.link(made, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if os.path.lexists(path):
                raise FileExistsError from None
            made.rename(path)
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(descriptor)
        os.close(descriptor)
    except FileExistsError as error:
        raise CopyError(f"{path} exists already") from error
    except OSError as error:
        raise CopyError(f"cannot write {path}: {error.strerror}") from error


def _leave_one_file(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        sqlite_backup.leave_one_file(connection)


@contextmanager
def _nobody() -> Iterator[None]:
    yield


@contextmanager
def _owner_of(directory: Path) -> Iterator[None]:
    """Let root write in a directory as its owner: the daemon must be able to use the file, and could plant links."""
    if os.geteuid() != 0:
        yield
        return
    try:
        owner = directory.stat()
    except OSError as error:
        raise CopyError(f"cannot write to {directory}: {error.strerror}") from error
    groups = os.getgroups()
    os.setgroups([owner.st_gid])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
