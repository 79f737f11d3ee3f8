"""The directory of a ticket: the request that its job reads, and the result files that the job writes.

Everything here runs as the owner, in the agent's child. The owner can put anything there, at any time. So nothing is
opened through a link below the place that the site names, and a result must be a regular file of the owner.
"""

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ckptd.checkpoints.scanning import user_paths
from ckptd.checkpoints.scanning.allowed_roots import open_without_links
from ckptd.core.verification import task_results
from ckptd.core.verification.task_results import ResultError
from ckptd.errors import CkptdError

REQUEST = "request.json"
_NAME = re.compile(r"[0-9a-f]{16}")
_RESULT = re.compile(r"result-(0|[1-9][0-9]{0,5})\.json")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_DIRECTORY = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TicketFilesError(CkptdError):
    """The directory of a verification job cannot be used."""


def name_result(task: int) -> str:
    return f"result-{task}.json"


def find_directory(template: str, ticket: str) -> str:
    """Return the path of a ticket's directory, for the user of this process.

    Raises:
        TicketFilesError: the ticket's name, or the site's template, is malformed.

    """
    if not _NAME.fullmatch(ticket):
        raise TicketFilesError(f"{ticket[:40]!r} names no ticket")
    uid = os.geteuid()
    home = os.path.realpath(user_paths.read_home(uid)) if "{home}" in template else ""
    base = template.replace("{home}", home).replace("{uid}", str(uid))
    if not base.startswith("/"):
        raise TicketFilesError(f"{template!r} is not an absolute path")
    return f"{base.rstrip('/')}/{ticket}"


def write_request(directory: str, request: Mapping[str, Any]) -> None:
    """Make a ticket's directory, with its request; keep one that is there already, for tasks that are tried again.

    Raises:
        OSError: it cannot be made.
        TicketFilesError: somebody else owns it.

    """
    base = os.path.dirname(directory)
    _make_directory(base)
    _make_directory(directory)
    with _open_own(directory) as here:
        data = json.dumps(request).encode()
        try:
            _write(here, REQUEST, data)
        except FileExistsError:
            os.unlink(REQUEST, dir_fd=here)
            _write(here, REQUEST, data)


def read_request(directory: str) -> Any:
    """Return the request that a ticket's directory contains."""
    with _open_own(directory) as here:
        return json.loads(_read(here, REQUEST, 1 << 30))


def write_result(directory: str, task: int, data: bytes) -> None:
    """Write a task's result, which appears whole or not at all."""
    with _open_own(directory) as here:
        name = f".{name_result(task)}.{os.getpid()}"
        _write(here, name, data)
        os.rename(name, name_result(task), src_dir_fd=here, dst_dir_fd=here)


def list_results(directory: str, most: int) -> list[int]:
    """Return the tasks below `most` that have a file with a result's name; none if its owner has no such directory."""
    try:
        with _open_own(directory) as here:
            found = [int(match[1]) for name in os.listdir(here) if (match := _RESULT.fullmatch(name))]
    except TicketFilesError:
        return []
    except OSError as error:
        if error.errno in _NO_DIRECTORY:
            return []
        raise
    return sorted(number for number in found if number < most)


def read_result(directory: str, task: int) -> bytes:
    """Read the result of a task, which its owner may have written.

    Raises:
        OSError: there is none.
        ResultError: it is not a regular file of the owner, or too large.

    """
    with _open_own(directory) as here:
        return _read(here, name_result(task), task_results.MAX_BYTES)


def remove(directory: str) -> None:
    """Delete a ticket's directory with all that is in it; following no link. One that is not there is no error."""
    with open_without_links(os.path.dirname(directory)) as base:
        shutil.rmtree(os.path.basename(directory), ignore_errors=True, dir_fd=base)


@contextmanager
def _open_own(directory: str) -> Iterator[int]:
    """Open a directory through no link, to use it by its descriptor.

    Raises:
        OSError: a component is missing, a link, or no directory.
        TicketFilesError: it belongs to another user.

    """
    with open_without_links(directory) as named:
        here = os.open(".", _DIRECTORY, dir_fd=named)
    try:
        if os.fstat(here).st_uid != os.geteuid():
            raise TicketFilesError(f"{directory} belongs to another user")
        yield here
    finally:
        os.close(here)


def _make_directory(path: str) -> None:
    with open_without_links(os.path.dirname(path)) as above:
        try:
            os.mkdir(os.path.basename(path), 0o700, dir_fd=above)
        except FileExistsError:
            return


def _write(here: int, name: str, data: bytes) -> None:
    with os.fdopen(os.open(name, _CREATE, 0o600, dir_fd=here), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _read(here: int, name: str, most: int) -> bytes:
    descriptor = os.open(name, _READ, dir_fd=here)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ResultError(f"{name} is no regular file")
        if status.st_uid != os.geteuid():
            raise ResultError(f"{name} belongs to another user")
        if status.st_size > most:
            raise ResultError(f"{name} is larger than {most} bytes")
        return file.read(most + 1)
