"""Suggest a known name for a mistyped one."""

import difflib
from collections.abc import Collection


def nearest(name: str, known: Collection[str]) -> str:
    """Return a "did you mean" hint with the most similar known name; empty if no name is similar."""
    match = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {match[0]!r}?" if match else ""
