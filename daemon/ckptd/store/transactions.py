"""Transactions: every public method of a `StorePart` runs in one, which the decorators of this module open.

If several nouns are written in one transaction, a method of one of them calls functions of the others with its
connection.
"""

import functools
from collections.abc import Callable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

from ckptd.store import engine
from ckptd.store.plain_reads import Select
from ckptd.store.read_parts import ReadPart

Fence = Callable[[sa.Connection], None]


class Database:
    """One database, used in short transactions.

    With a fence, every transaction that writes calls it first: it raises LeaseLostError if this process may no longer
    write.
    """

    def __init__(self, database: sa.Engine, fence: Fence | None = None, lease_epoch: int | None = None) -> None:
        self._engine = database
        self._fence = fence
        self.lease_epoch = lease_epoch  # under which everything is written; None: without a lease

    @property
    def sqlite_path(self) -> Path | None:
        """Return the file of a SQLite database; None for PostgreSQL."""
        return Path(self._engine.url.database or "") if self._engine.dialect.name == "sqlite" else None

    def with_fence(self, fence: Fence, lease_epoch: int) -> "Database":
        """Return the same database, with the same connections, behind a fence."""
        return Database(self._engine, fence, lease_epoch)

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """Return a read-only transaction; see engine.begin."""
        return engine.begin(self._engine, is_writer=False)

    @contextmanager
    def selecting(self) -> Iterator[Select]:
        """Run plain SQL in a read-only transaction."""
        with self.reading() as connection:
            yield engine.select_through(connection)

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Run a transaction that writes; see engine.begin.

        Raises:
            LeaseLostError: the fence does not let it through.

        """
        with engine.begin(self._engine, is_writer=True) as connection:
            if self._fence is not None:
                self._fence(connection)
            yield connection

    def finish_writing(self) -> bool:
        """Move everything of a SQLite database into its one file, so that a copy of it is complete; False: it is busy.

        Raises:
            StoreError: the database does not answer.

        """
        if self.sqlite_path is None:
            return True
        with engine.begin(self._engine.execution_options(isolation_level="AUTOCOMMIT"), is_writer=False) as connection:
            is_busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
        return not is_busy

    def close(self) -> None:
        """Close every connection; a later call opens new ones. A forked child must use new connections."""
        self._engine.dispose()


class StorePart(ReadPart):
    """Base class of the parts of the store that write, such as jobs, flags and the outbox."""

    database: Database


P = ParamSpec("P")
NounT = TypeVar("NounT", bound=StorePart)
ResultT = TypeVar("ResultT")
SizedT = TypeVar("SizedT", bound=Sized)


def reading(
    method: Callable[Concatenate[NounT, sa.Connection, P], ResultT],
) -> Callable[Concatenate[NounT, P], ResultT]:
    """Run a method in a read-only transaction; its callers do not pass the connection."""

    @functools.wraps(method)
    def read(noun: NounT, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        with noun.database.reading() as connection:
            return method(noun, connection, *args, **kwargs)

    return read


def writing(
    method: Callable[Concatenate[NounT, sa.Connection, P], ResultT],
) -> Callable[Concatenate[NounT, P], ResultT]:
    """Run a method in a transaction that writes; its callers do not pass the connection."""

    @functools.wraps(method)
    def write(noun: NounT, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        with noun.database.writing() as connection:
            return method(noun, connection, *args, **kwargs)

    return write


def writing_if_any(
    method: Callable[Concatenate[NounT, sa.Connection, SizedT, P], None],
) -> Callable[Concatenate[NounT, SizedT, P], None]:
    """Like `writing`, but do nothing and take no lock if the method's first argument is empty."""

    @functools.wraps(method)
    def write(noun: NounT, things: SizedT, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if len(things) > 0:
            with noun.database.writing() as connection:
                method(noun, connection, things, *args, **kwargs)

    return write
