"""Shows the progress of a command that reads every byte of checkpoints."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import click

from ckptd.cli.output import safe


class ShownOutcome(Protocol):
    """A result with the cells of its line, and the bytes that were read for it."""

    @property
    def size_bytes(self) -> int: ...

    @property
    def cells(self) -> tuple[str | None, ...]: ...


ShowProgress = Callable[[ShownOutcome | None, int], None]  # a result, and the bytes of those that are not recorded yet


def is_terminal() -> bool:
    return sys.stderr.isatty() and sys.stdout.isatty()


@contextmanager
def show_progress(headings: Sequence[str], total_bytes: int, *, is_quiet: bool) -> Iterator[ShowProgress]:
    """Yield a function that shows a result, and the bytes that were read beyond those of all results so far.

    On a terminal, it moves a progress bar. Otherwise it prints a line for each result at once.
    """
    if is_terminal():
        from ckptd.cli import progress_bar  # noqa: PLC0415 - only such a terminal needs rich

        done = 0
        with progress_bar.show() as advance:

            def move_bar(outcome: ShownOutcome | None, further_bytes: int) -> None:
                nonlocal done
                done += 0 if outcome is None else outcome.size_bytes
                advance(done + further_bytes, total_bytes)

            move_bar(None, 0)
            yield move_bar
        return

    def print_cells(cells: Iterable[str | None]) -> None:
        if total_bytes and not is_quiet:
            click.echo("\t".join(safe(cell or "-") for cell in cells))

    print_cells(headings)
    yield lambda outcome, _further_bytes: None if outcome is None else print_cells(outcome.cells)
