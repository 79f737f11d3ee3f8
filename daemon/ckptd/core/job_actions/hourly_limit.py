"""Limits the actions on jobs per hour, and divides them among users."""

from collections.abc import Mapping

ACTOR = "actions"  # of the audit's entries about jobs


def has_room(kind: str, owner: int, counts: Mapping[tuple[str, int], int], max_per_hour: int) -> bool:
    """Whether one more action of a kind is allowed for an owner's jobs, from the actions within the last hour."""
    by_owner = {uid: count for (each, uid), count in counts.items() if each == kind}
    total, own = sum(by_owner.values()), by_owner.get(owner, 0)
    return total < max_per_hour and own < (max_per_hour - (total - own) + 1) // 2
