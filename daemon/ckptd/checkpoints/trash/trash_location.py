"""Finds and opens the trash of a directory: beside it, or inside it if beside is impossible."""

import errno
import fcntl
import os
import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from ckptd.checkpoints.scanning.tree import TRASH
from ckptd.checkpoints.trash.descriptors import FileOperations, closing, exists, open_below, open_path, read_mount
from ckptd.checkpoints.trash.outcome import RefusedError
from ckptd.core.fleet.prune_totals import FailureCause

DELETING = ".deleting"
_ACT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_CANNOT = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV}
_NO_DIRECTORY = {errno.ENOTDIR, errno.ELOOP}


def list_places(directory: PurePosixPath) -> tuple[PurePosixPath, PurePosixPath]:
    """Return the two possible trash directories of a run's directory; either, both or none exist."""
    return directory.parent / TRASH, directory / TRASH


def check_act_id(act_id: str) -> None:
    """Refuse an id that is not valid as a name in the trash.

    Raises:
        RefusedError: it contains other characters than letters, digits, '-' and '_'.

    """
    if not is_act_id(act_id):
        raise RefusedError(f"{act_id!r} is no id of an act", FailureCause.OUTSIDE)


def is_act_id(name: str) -> bool:
    return _ACT_ID.fullmatch(name) is not None


def is_begun(opened: "OpenTrash", act_id: str) -> bool:
    """Whether the deletion of an entry started, and was interrupted or failed."""
    return not exists(act_id, opened.trash) and exists(act_id + DELETING, opened.trash)


def check_actor(uid: int) -> None:
    """Refuse to act on a user's files as anyone but that user or root.

    Raises:
        RefusedError: the process is another user.

    """
    if os.geteuid() not in {0, uid}:
        raise RefusedError(
            f"this process is user {os.geteuid()}, and the files are of user {uid}", FailureCause.FOREIGN
        )


def check_changeable(directory: int, uid: int) -> None:
    """Refuse to change, as root, a directory that is not the user's own, because the kernel would allow it.

    Raises:
        RefusedError: it belongs to another user.

    """
    if os.geteuid() == 0 and os.fstat(directory).st_uid != uid:
        raise RefusedError("one of its directories belongs to someone else", FailureCause.FOREIGN)


@dataclass(frozen=True, slots=True)
class OpenTrash:
    """An open trash. `base` is the directory that contains it."""

    base: int
    trash: int
    directory: str  # name of the run's directory in `base`; "" where the trash is inside of it
    is_locked: bool = False  # so that no other process changes it; some file systems cannot lock


@contextmanager
def create_place(
    directory: PurePosixPath, uid: int, hands: FileOperations, roots: Collection[PurePosixPath]
) -> Iterator[tuple[OpenTrash, int]]:
    """Open or create the trash of a run's directory, and open the directory itself, only below these roots.

    Raises:
        RefusedError: the existing trash is not the user's, or in use.
        OSError: it can be created neither beside the directory nor inside it.

    """
    with ExitStack() as held:
        run = held.enter_context(closing(open_path(directory)))
        check_changeable(run, uid)
        try:
            beside = held.enter_context(closing(_open_beside(directory, run, roots)))
            check_changeable(beside, uid)
            trash = held.enter_context(closing(_make(beside, hands)))
            name = directory.name
        except (OSError, RefusedError) as error:
            if isinstance(error, OSError) and error.errno not in _CANNOT:
                raise
            trash = held.enter_context(closing(_make(run, hands)))
            beside, name = run, ""
        yield OpenTrash(beside, trash, name, _lock(trash)), run


def _open_beside(directory: PurePosixPath, run: int, roots: Collection[PurePosixPath]) -> int:
    if not any(directory.parent.is_relative_to(root) for root in roots):
        raise RefusedError(f"{directory.parent} is outside of the allowed roots", FailureCause.OUTSIDE)
    beside = open_path(directory.parent)
    try:
        _check_beside(beside, directory.name, run)
    except BaseException:
        os.close(beside)
        raise
    return beside


def _check_beside(beside: int, name: str, run: int) -> None:
    """Check that the run's directory is in this one and on the same mount, so that renames between them work."""
    with closing(open_below(beside, name)) as again:
        is_same = os.fstat(again).st_ino == os.fstat(run).st_ino and read_mount(again) == read_mount(beside)
    if not is_same or os.fstat(beside).st_dev != os.fstat(run).st_dev:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def _make(base: int, hands: FileOperations) -> int:
    try:
        return _open_trash(base)
    except FileNotFoundError:
        hands.make_directory(TRASH, base)
        hands.sync(base)
        return _open_trash(base)


def _open_trash(base: int) -> int:
    try:
        trash = os.open(TRASH, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=base)
    except OSError as error:
        if error.errno in _NO_DIRECTORY:  # anybody who may write there can put a file or a link in its place
            raise RefusedError(_not_private(), FailureCause.FOREIGN) from None
        raise
    status = os.fstat(trash)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077 or read_mount(trash) != read_mount(base):
        os.close(trash)
        raise RefusedError(_not_private(), FailureCause.FOREIGN)
    return trash


def _not_private() -> str:
    return f"{TRASH} is not a private directory of user {os.geteuid()}"


def _lock(trash: int) -> bool:
    """Lock a trash; return False where its file system has no locks."""
    try:
        fcntl.flock(trash, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RefusedError("the trash is in use by another process", FailureCause.BUSY) from None
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK}:
            raise
        return False
    return True


@contextmanager
def open_place(place: PurePosixPath, *, is_locked: bool = True) -> Iterator[OpenTrash | None]:
    """Open an existing trash, or yield None. Names in it have no effect outside its own directory.

    Raises:
        RefusedError: it is not the user's, in use, or inside another trash.
        OSError: it cannot be opened.

    """
    if TRASH in place.parent.parts:
        raise RefusedError("it is inside another trash", FailureCause.OUTSIDE)
    with ExitStack() as held:
        try:
            base = held.enter_context(closing(open_path(place.parent)))
            trash = held.enter_context(closing(_open_trash(base)))
        except FileNotFoundError:
            yield None
            return
        yield OpenTrash(base, trash, "", is_locked and _lock(trash))
