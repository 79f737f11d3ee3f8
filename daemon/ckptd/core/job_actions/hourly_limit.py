"""How many acts on jobs are allowed within an hour, and how they are divided among users."""

from collections.abc import Mapping

ACTOR = "actions"  # of the audit's entries about jobs


def has_room(kind: str, owner: int, counts: Mapping[tuple[str, int], int], max_per_hour: int) -> bool:
    """Whether one more act of a kind may be done to an owner's jobs, by how many were done within the hour."""
    by_owner = {uid: count for (each, uid), count in counts.items() if each == kind}
    total, own = sum(by_owner.values()), by_owner.get(owner, 0)
    return total < max_per_hour and own < (max_per_hour - (total - own) + 1) // 2
