"""A progress bar for the bytes read. It starts no thread, because `inspect` forks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn


@contextmanager
def show() -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error; yield a function that sets the bytes read and the total."""
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True) as progress:
        task = progress.add_task("reading", total=None)

        def advance(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)
            progress.refresh()

        yield advance
