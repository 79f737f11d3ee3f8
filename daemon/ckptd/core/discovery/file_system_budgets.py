"""Budgets of file systems: how much scans and searches may ask of a metadata server."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSystemBudget:
    """What scans may do below `path`. None: no limit."""

    path: str
    entries_per_second: int | None = None  # directory entries, on average
    parallel: int | None = None  # owners whose directories are scanned at the same time
    most_entries: int = 200_000  # that one scan or search can have read


def find_budget(budgets: Iterable[FileSystemBudget], directory: str) -> FileSystemBudget | None:
    """Return the budget with the longest path that contains a directory."""
    matching = [each for each in budgets if _is_below(directory, each.path)]
    return max(matching, key=lambda each: len(each.path), default=None)


def _is_below(directory: str, path: str) -> bool:
    return directory == path or directory.startswith(f"{path.rstrip('/')}/")
