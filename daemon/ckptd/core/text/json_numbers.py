"""Keeps infinity and NaN out of JSON documents: a file may claim any epoch."""

import math
from collections.abc import Mapping
from typing import Any


def replace_infinite(value: Any) -> Any:
    """Return a document of plain containers with null for each infinity and NaN."""
    if isinstance(value, Mapping):
        return {key: replace_infinite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_infinite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
