"""How many users something befalls: what one user's jobs can cause by themselves is no trouble of the cluster's."""

from collections.abc import Iterable

from ckptd.core.discovery.scan_schedule import Watched
from ckptd.core.model import Unknown

_IN_DOUBT = frozenset({"search", "job"})  # what nobody could tell, though everything was read


def count_unread_owners(watched: Iterable[Watched]) -> int:
    """Return of how many users a directory could not be read; that a search could not tell is their own matter."""
    return len({each.key.uid for each in watched if isinstance(each.last, Unknown) and each.last.what not in _IN_DOUBT})
