"""How the comparisons of a copy with its originals are written in the column `comparisons` of its row."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ckptd.core.model import ContentComparison


def encode_comparisons(comparisons: Iterable[ContentComparison]) -> list[list[Any]] | None:
    """Return JSON types; None if there are no comparisons."""
    return [[each.compared_at.isoformat(), *each[1:]] for each in comparisons] or None


def decode_comparisons(data: list[list[Any]] | None) -> tuple[ContentComparison, ...]:
    """Return the comparisons of these JSON types."""
    if not data:  # of nearly all rows
        return ()
    return tuple([ContentComparison(datetime.fromisoformat(each[0]), *each[1:]) for each in data])
