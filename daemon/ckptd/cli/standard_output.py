"""Ends a command whose standard output cannot be written. Imports nothing slow."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from ckptd.errors import CkptdError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

DESCRIPTOR = 1


class UnwritableOutputError(BaseException):
    """Standard output cannot be written; as an interrupt does, this ends a command past all handlers of its errors."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"standard output cannot be written: {cause.strerror}")
        self.is_pipe_closed = isinstance(cause, BrokenPipeError)


class _CheckedFile(io.FileIO):
    """The file of standard output; after an error, it drops what is still in the buffers above it."""

    _has_failed = False

    def write(self, data: "ReadableBuffer", /) -> int:
        if self._has_failed:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            self._has_failed = True
            raise UnwritableOutputError(error) from error


@contextmanager
def check_output() -> Iterator[None]:
    """Let a command end with one sentence if its standard output cannot be written; quietly if its reader has ended.

    Tests and programs that set `sys.stdout` themselves keep theirs.
    """
    if sys.stdout is not sys.__stdout__:
        yield
        return
    sys.stdout = _open_checked()
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except UnwritableOutputError as error:
        if error.is_pipe_closed:
            _end_by_sigpipe()
        with suppress(OSError):  # stderr may be the same file
            click.echo(f"ckptd: {error}", err=True)
        raise SystemExit(CkptdError.exit_status) from error


def _end_by_sigpipe() -> None:
    """End this process by SIGPIPE, which Python ignores, as the kernel ends other programs."""
    import signal  # noqa: PLC0415 - no other command waits for it

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)


def _open_checked() -> io.TextIOWrapper:
    """Return a stream like `sys.stdout`, which is None if the descriptor was closed when Python started."""
    given = sys.__stdout__
    if not isinstance(given, io.TextIOWrapper):
        _occupy_descriptor()
        return io.TextIOWrapper(io.BufferedWriter(_CheckedFile(DESCRIPTOR, "w", closefd=False)))
    return io.TextIOWrapper(
        io.BufferedWriter(_CheckedFile(DESCRIPTOR, "w", closefd=False)),
        encoding=given.encoding,
        errors=given.errors,
        line_buffering=given.line_buffering,
    )


def _occupy_descriptor() -> None:
    """Open the closed descriptor for reading only: otherwise the database could get it, and output be written there."""
    opened = os.open(os.devnull, os.O_RDONLY)
    if opened != DESCRIPTOR:
        os.dup2(opened, DESCRIPTOR, inheritable=False)
        os.close(opened)
