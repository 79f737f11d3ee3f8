"""How the newest file of no known format is stored in a run's row, and sent by the agent: as a short list."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ckptd.core.model import UnrecognisedFile

_PATH_MAX = 4096  # the kernel opens no longer one


def encode_unrecognised(file: UnrecognisedFile | None) -> list[Any] | None:
    """Return the path, the size, and the time of the last change in seconds since the epoch."""
    return None if file is None else [file.path, file.size_bytes, int(file.modified_at.timestamp())]


def decode_unrecognised(values: Sequence[Any] | None) -> UnrecognisedFile | None:
    """Decode what `encode_unrecognised` returned.

    Raises:
        TypeError, ValueError, OverflowError: it has another form, or its path is not below the directory.

    """
    if values is None:
        return None
    path, size_bytes, modified = values
    if not isinstance(path, str) or not isinstance(size_bytes, int) or not isinstance(modified, int):
        raise TypeError(f"{values!r} is not a path, a size and a time")
    if size_bytes < 0 or not 0 < len(path) <= _PATH_MAX or path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{values!r} is not a file below the directory")
    return UnrecognisedFile(path, size_bytes, datetime.fromtimestamp(modified, UTC))
