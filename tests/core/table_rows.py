"""Checkpoints that can be rows of a table."""

from dataclasses import replace


def as_row(found):
    """Return a checkpoint whose file is its own and as old as it is."""
    identity = found.identities[0]._replace(modified_ns=round(found.modified_at.timestamp() * 10**9))
    return replace(found, files=(found.path.name,), identities=(identity,))
