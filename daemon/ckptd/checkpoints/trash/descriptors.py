"""Opens directories by descriptor, never through a link, and makes all changes of the trash on the disk.

A name is used only relative to an open directory. If somebody replaces a directory by a link or renames it, the next
call still acts in the same directory. No call here replaces anything that exists.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath

from ckptd.checkpoints.trash.outcome import RefusedError
from ckptd.core.fleet.prune_totals import FailureCause

Step = Callable[[str], None]

_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_REPLACE = 1  # RENAME_NOREPLACE of <linux/fs.h>
_NOT_SUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}  # by this file system, NFS for one


def open_path(path: PurePosixPath) -> int:
    """Open a directory by its absolute path, component by component, without following links.

    Raises:
        RefusedError: the path is relative or contains `..`.
        OSError: a component is missing, a link, or not a directory.

    """
    if not path.is_absolute() or ".." in path.parts:
        raise RefusedError(f"{path} is not an absolute path without '..'", FailureCause.OUTSIDE)
    here = os.open("/", os.O_PATH | _DIRECTORY)
    return _descend(here, path.parts[1:])


def open_below(base: int, path: str) -> int:
    """Open a directory by its path relative to an open one, without following links; "" opens the same again."""
    parts = tuple(part for part in path.split("/") if part)
    if ".." in parts or "." in parts:
        raise RefusedError(f"{path!r} climbs out of the directory", FailureCause.OUTSIDE)
    return _descend(os.open(".", os.O_PATH | _DIRECTORY, dir_fd=base), parts)


def _descend(here: int, parts: tuple[str, ...]) -> int:
    try:
        for part in parts:
            child = os.open(part, os.O_PATH | _DIRECTORY, dir_fd=here)
            os.close(here)
            here = child
        return os.open(".", os.O_RDONLY | _DIRECTORY, dir_fd=here)
    finally:
        os.close(here)


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_mount(descriptor: int) -> bytes:
    """Return the mount id of a descriptor, which differs for bind mounts of the same device."""
    with open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
        return next((line for line in file if line.startswith(b"mnt_id:")), b"")


def exists(name: str, at: int) -> bool:
    with suppress(FileNotFoundError):
        os.stat(name, dir_fd=at, follow_symlinks=False)
        return True
    return False


class FileOperations:
    """The calls that change the disk. `step` is called with the name of each before it, so that tests can fail it."""

    def __init__(self, step: Step | None = None) -> None:
        self._step: Step = step or (lambda _name: None)

    def make_directory(self, name: str, at: int) -> None:
        self._step(f"mkdir {name}")
        os.mkdir(name, 0o700, dir_fd=at)

    def write(self, name: str, at: int, data: bytes) -> None:
        """Create a file and sync it.

        Raises:
            FileExistsError: the name exists.

        """
        self._step(f"create {name}")
        found = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=at)
        with closing(found):
            self._step(f"write {name}")
            view = memoryview(data)
            while view:
                view = view[os.write(found, view) :]
            self._step(f"fsync {name}")
            os.fsync(found)

    def rename(self, name: str, at: int, new_name: str, new_at: int) -> None:
        """Rename without replacing.

        Raises:
            FileExistsError: the new name exists.

        """
        self._step(f"rename {name} {new_name}")
        try:
            _rename_exclusively(name, at, new_name, new_at)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            self._rename_in_steps(name, at, new_name, new_at)

    def _rename_in_steps(self, name: str, at: int, new_name: str, new_at: int) -> None:
        """For file systems that cannot rename exclusively: link and unlink a file; rename a directory if none is there.

        A directory renamed onto another replaces it only where that one is empty, so that nothing can be lost.
        """
        if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            if exists(new_name, new_at):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name)
            os.rename(name, new_name, src_dir_fd=at, dst_dir_fd=new_at)
            return
        os.link(name, new_name, src_dir_fd=at, dst_dir_fd=new_at, follow_symlinks=False)
        self._step(f"unlink {name}")
        os.unlink(name, dir_fd=at)

    def unlink(self, name: str, at: int) -> None:
        self._step(f"unlink {name}")
        os.unlink(name, dir_fd=at)

    def remove_directory(self, name: str, at: int) -> None:
        self._step(f"rmdir {name}")
        os.rmdir(name, dir_fd=at)

    def open_up(self, path: str, base: int, identity: tuple[int, int, int]) -> None:
        """Let the owner read and change a directory of this device, inode and owner; leave anything else as it is."""
        parent, _, name = path.rpartition("/")
        try:
            with closing(open_below(base, parent)) as at:
                found = os.open(name, os.O_PATH | _DIRECTORY, dir_fd=at)
        except (FileNotFoundError, NotADirectoryError):
            return  # it was deleted, or exchanged: whoever deletes it sees that
        with closing(found):
            status = os.fstat(found)
            is_ours = (status.st_dev, status.st_ino, status.st_uid) == identity
            if is_ours and status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
                self._step(f"chmod {name}")
                os.chmod(f"/proc/self/fd/{found}", stat.S_IMODE(status.st_mode) | stat.S_IRWXU)

    def sync(self, *directories: int) -> None:
        """Sync directories, so that their names are on the disk."""
        for directory in directories:
            self._step("fsync directory")
            try:
                os.fsync(directory)
            except OSError as error:
                if error.errno not in _NOT_SUPPORTED:  # some file systems have nothing to sync here
                    raise


_libc = ctypes.CDLL(None, use_errno=True)


def _rename_exclusively(name: str, at: int, new_name: str, new_at: int) -> None:
    try:
        call = _libc.renameat2
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    if call(at, os.fsencode(name), new_at, os.fsencode(new_name), _NO_REPLACE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
