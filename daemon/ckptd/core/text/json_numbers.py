"""Keeps numbers that JSON does not have out of documents: files claim what they like, an epoch of infinity, too."""

import math
from collections.abc import Mapping
from typing import Any


def replace_infinite(value: Any) -> Any:
    """Return a document of plain containers with null for each number that is infinite or none."""
    if isinstance(value, Mapping):
        return {key: replace_infinite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_infinite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
