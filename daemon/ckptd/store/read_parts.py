"""The parts of a store that only read: their methods run plain SQL, through SQLAlchemy or through a driver alone."""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ckptd.store.plain_reads import Select


class Readable(Protocol):
    """A database that plain SQL can read."""

    def selecting(self) -> AbstractContextManager[Select]:
        """Run plain SQL in a read-only transaction, in which all statements see the same snapshot."""


class Snapshot:
    """One open transaction in place of a database: all that is read through it is of one moment."""

    def __init__(self, select: Select) -> None:
        self._select = select

    @contextmanager
    def selecting(self) -> Iterator[Select]:
        yield self._select


class ReadPart:
    """Base class of the parts of a store that read, such as runs, flags and the audit log."""

    def __init__(self, database: Readable) -> None:
        self.database = database


P = ParamSpec("P")
PartT = TypeVar("PartT", bound=ReadPart)
ResultT = TypeVar("ResultT")


def selecting(
    method: Callable[Concatenate[PartT, Select, P], ResultT],
) -> Callable[Concatenate[PartT, P], ResultT]:
    """Run a method in a read-only transaction for plain SQL; its callers do not pass the function that runs it."""

    @functools.wraps(method)
    def read(part: PartT, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        with part.database.selecting() as select:
            return method(part, select, *args, **kwargs)

    return read
