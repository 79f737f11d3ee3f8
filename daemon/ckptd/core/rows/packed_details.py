"""What few checkpoints have, or what many checkpoints have alike, as compressed JSON.

A field with its default value is left out, and a row without any other has no details.
"""

import functools
import json
from collections.abc import Mapping
from typing import Any

from ckptd.core.rows.usual_texts import compress, decompress

_encode_json = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


def pack_details(details: Mapping[str, Any]) -> bytes | None:
    """Return the details; None if there are none."""
    return _compress(_encode_json(details)) if details else None


def unpack_details(packed: bytes) -> Mapping[str, Any]:
    """Return what `pack_details` wrote."""
    found: Mapping[str, Any] = json.loads(decompress(packed))
    return found


@functools.lru_cache(maxsize=1024)
def _compress(text: str) -> bytes:
    return compress(text.encode())
