"""Chooses the cluster that a command is about: the one after --cluster, or else the one of this host."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import click

from ckptd.config.local_cluster import read_local_cluster
from ckptd.core.model.records import ClusterStatus
from ckptd.errors import CkptdError

ALL = "all"
COLUMN = "cluster"
Command = TypeVar("Command", bound=Callable[..., Any])


class ClusterError(CkptdError):
    """The command cannot tell which cluster it is about."""


class ClusterChoice(NamedTuple):
    """The cluster to show; None: all on record. Tables of several clusters name the cluster of each row."""

    name: str | None
    is_column_shown: bool = False

    def columns(self, others: tuple[str, ...]) -> tuple[str, ...]:
        """Return the headings of a table."""
        return (COLUMN, *others) if self.is_column_shown else others

    def cells(self, cluster: str, others: tuple[object, ...]) -> tuple[object, ...]:
        """Return the cells of a row."""
        return (cluster, *others) if self.is_column_shown else others

    def shows(self, cluster: str) -> bool:
        """Whether something of this cluster is shown."""
        return self.name in {None, cluster}


def cluster_option(command: Command) -> Command:
    """Add --cluster to a command that can show one cluster or all."""
    text = "Show this cluster instead of the one of this host; `all` shows every cluster in the database."
    return click.option("--cluster", "asked", metavar="NAME", help=text)(command)


def choose_clusters(asked: str | None, configured: str | None, recorded: Iterable[ClusterStatus]) -> ClusterChoice:
    """Return what to show: the cluster that was asked for, or this host's; all if this host's is not on record.

    Raises:
        ClusterError: the database has no such cluster.

    """
    names = [status.cluster for status in recorded]
    if asked not in {None, ALL}:
        return ClusterChoice(_check(str(asked), names))
    name = None if asked == ALL else configured or read_local_cluster()
    if name in names:
        return ClusterChoice(name)
    return ClusterChoice(None, is_column_shown=len(names) > 1)


def find_cluster(asked: str | None, configured: str | None, recorded: Iterable[ClusterStatus]) -> str:
    """Return the one cluster that was asked for, or this host's, or else the only one in the database.

    Raises:
        ClusterError: it is not on record, or nothing tells which of several it is.

    """
    names = [status.cluster for status in recorded]
    if asked is not None:
        return _check(asked, names)
    if configured:
        return configured
    if local := read_local_cluster():
        return _check(local, names)
    if not names:
        raise ClusterError("no cluster is on record: the daemon has never run with this database")
    if len(names) > 1:
        raise ClusterError(f"several clusters are on record ({', '.join(names)}): set slurm.cluster")
    return names[0]


def _check(name: str, names: list[str]) -> str:
    if name not in names:
        raise ClusterError(f"no cluster {name!r} is on record; there are {', '.join(names) or 'none'}")
    return name
