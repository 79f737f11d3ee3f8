"""What reading every byte of a copy and of its original has shown."""

from datetime import datetime
from typing import NamedTuple


class ContentComparison(NamedTuple):
    """The last comparison of a copy's content with that of its original.

    It says something as long as the files of the copy are those that were read: `copy_files` and `original_files` are
    `identify_files` of both.
    """

    compared_at: datetime
    original: str  # its path
    original_files: str
    copy_files: str
    differing_file: str | None  # the first file that differs, by its name in the checkpoint; None: none does
    is_by_owner: bool  # a job of the files' owner says so, and not this node
