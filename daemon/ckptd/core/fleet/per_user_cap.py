"""Counts the users affected by a problem, because a problem of one user's jobs is not one of the cluster."""

from collections.abc import Iterable

from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import Unknown

_IN_DOUBT = frozenset({"search", "job"})  # what nobody could tell, though everything was read


def count_unreadable_directory_users(watched: Iterable[WatchedRun]) -> int:
    """Return the number of users with an unreadable directory, without searches that gave no clear result."""
    return len({each.key.uid for each in watched if isinstance(each.last, Unknown) and each.last.what not in _IN_DOUBT})
