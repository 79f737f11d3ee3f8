"""Where clusters share files, so that a run that continues on another cluster is one run.

A declaration proves it, never a path alone: `/home/alice/run` exists on most clusters, and device and inode numbers
differ between the clients of one file system.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

MAX_CLOCK_DIFFERENCE = timedelta(minutes=1)  # from which on clusters share nothing
_NEVER = datetime.min.replace(tzinfo=UTC)


class SharedDirectory(NamedTuple):
    """What one cluster declares: that another one mounts the same files at this path, with the same uids."""

    cluster: str
    other_cluster: str
    directory: str

    @property
    def reverse(self) -> "SharedDirectory":
        """What the other cluster must declare."""
        return SharedDirectory(self.other_cluster, self.cluster, self.directory)

    def contains(self, path: str) -> bool:
        """Whether a path is this directory or below it."""
        return path == self.directory or path.startswith(f"{self.directory}/")


def declare(cluster: str, groups: Iterable[tuple[Collection[str], Iterable[str]]]) -> tuple[SharedDirectory, ...]:
    """Return what groups of clusters and directories declare for one cluster; the others' groups are left out."""
    return tuple(
        SharedDirectory(cluster, other, directory)
        for clusters, directories in groups
        if cluster in clusters
        for directory in directories
        for other in clusters
        if other != cluster
    )


class ShareTrouble(StrEnum):
    """Why a declaration is not in effect."""

    UNDECLARED = "undeclared"  # by the other cluster
    CLOCKS = "clocks"  # differ so much that the latest attempt is unknown


def find_trouble(
    declared: SharedDirectory, everything: Collection[SharedDirectory], ahead: Mapping[str, timedelta]
) -> ShareTrouble | None:
    """Return why a declaration is not in effect, if it is not.

    `ahead` says how far the clock of each cluster's Slurm is ahead of that of the database, as far as this is known.
    """
    if declared.reverse not in everything:
        return ShareTrouble.UNDECLARED
    clocks = [ahead[name] for name in (declared.cluster, declared.other_cluster) if name in ahead]
    if len(clocks) == 2 and abs(clocks[0] - clocks[1]) >= MAX_CLOCK_DIFFERENCE:
        return ShareTrouble.CLOCKS
    return None


def select_mutual(declared: Collection[SharedDirectory], ahead: Mapping[str, timedelta]) -> tuple[SharedDirectory, ...]:
    """Return the declarations that are in effect: those that both clusters made, and whose clocks agree."""
    known = frozenset(declared)
    return tuple(each for each in declared if find_trouble(each, known, ahead) is None)


def find_acting(latest: Mapping[str, datetime | None]) -> str:
    """Return which cluster acts for a run: that of the attempt that started last, and of equal ones the last name.

    `latest` has the start of the latest attempt on each cluster; None: the run has none there.
    """
    return max(latest, key=lambda cluster: (latest[cluster] is not None, latest[cluster] or _NEVER, cluster))
