"""Writes and reads `.ckptd/resumed` of a job's working directory, as the job's user.

Both use descriptors, follow no link, and touch no file of another user: in a shared directory, anyone may have created
the file, or a hard link to somebody's file, under that name.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from ckptd.checkpoints.scanning.access_times import open_keeping_atime
from ckptd.core.model import DeclaredResume
from ckptd.core.runs import declared_resume
from ckptd.core.runs.declared_resume import DIRECTORY, FILE
from ckptd.errors import CkptdError

MAX_BYTES_READ = 256 << 10  # of the end of the file
MAX_BYTES = 1 << 20  # then a new file is begun
_OLD = f"{FILE}.old"
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotOwnFileError(CkptdError):
    """The file is not one that this user's jobs wrote: a link, a device, or another user's."""


def append(work_dir: str, said: DeclaredResume) -> None:
    """Append one line with one write, so that lines of concurrent jobs on one host do not mix.

    Raises:
        NotOwnFileError: the directory or the file is a link or another user's.
        OSError: it cannot be written.

    """
    line = declared_resume.format_line(said).encode()
    with _open_directory(work_dir, is_made=True) as directory:
        file = _open_file(directory, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            if os.fstat(file).st_size > MAX_BYTES:
                os.replace(FILE, _OLD, src_dir_fd=directory, dst_dir_fd=directory)
                os.close(file)
                file = _open_file(directory, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            size = os.fstat(file).st_size
            is_torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"  # a write that a full disk cut off
            data = b"\n" + line if is_torn else line
            if os.write(file, data) != len(data):
                raise OSError("the line was not written whole: is the disk full?")
        finally:
            os.close(file)


def read(work_dir: str | int) -> tuple[DeclaredResume, ...]:
    """Return the records of this user's jobs in a working directory, oldest first; empty if there is no file.

    The directory is given by its path or by a descriptor.

    Raises:
        NotOwnFileError: the directory or the file is a link or another user's.
        OSError: it cannot be read.

    """
    try:
        with _open_directory(work_dir, is_made=False) as directory:
            file = _open_file(directory, os.O_RDONLY)
            try:
                status = os.fstat(file)
                start = max(0, status.st_size - MAX_BYTES_READ)
                data = os.pread(file, MAX_BYTES_READ, start)
            finally:
                os.close(file)
    except FileNotFoundError:
        return ()
    if start:
        data = data.partition(b"\n")[2]  # its first line may be cut off
    text = data.decode("utf-8", "surrogateescape")
    try:
        written_at = datetime.fromtimestamp(status.st_mtime, UTC)
    except (ValueError, OverflowError, OSError):
        written_at = None  # its user may have set any
    return declared_resume.parse_lines(text, written_at)


@contextmanager
def _open_directory(work_dir: str | int, *, is_made: bool) -> Iterator[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    above = os.open(".", flags, dir_fd=work_dir) if isinstance(work_dir, int) else os.open(work_dir, flags)
    try:
        if is_made:
            with suppress(FileExistsError):
                os.mkdir(DIRECTORY, 0o755, dir_fd=above)
        try:
            found = os.open(DIRECTORY, _DIRECTORY_FLAGS, dir_fd=above)
        except NotADirectoryError:
            raise NotOwnFileError(f"{work_dir}/{DIRECTORY} is a link or a file") from None
    finally:
        os.close(above)
    try:
        yield found
    finally:
        os.close(found)


def _open_file(directory: int, flags: int) -> int:
    try:
        file = open_keeping_atime(FILE, flags | _FILE_FLAGS, 0o644, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotOwnFileError(f"{DIRECTORY}/{FILE} is a link") from error
        raise
    status = os.fstat(file)
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid == os.geteuid():
        return file
    os.close(file)
    raise NotOwnFileError(f"{DIRECTORY}/{FILE} belongs to uid {status.st_uid}, has another name, or is no regular file")
