"""Bounds the nesting of documents that users write: each level costs stack wherever they are encoded again."""

from typing import Any


def is_nested_deeper(document: Any, limit: int) -> bool:
    """Whether a document of plain containers has more than `limit` of them inside one another.

    It uses no recursion: TOML's dotted keys and the JSON of a subverted child nest as deep as they like.
    """
    level = [document] if isinstance(document, _CONTAINERS) else []
    for _ in range(limit):
        level = [
            each
            for container in level
            for each in (container.values() if isinstance(container, dict) else container)
            if isinstance(each, _CONTAINERS)
        ]
        if not level:
            return False
    return bool(level)


_CONTAINERS = (dict, list, tuple)
