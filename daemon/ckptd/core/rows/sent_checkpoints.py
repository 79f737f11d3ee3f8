"""Checkpoints on record as the agent's requests carry them: the columns of their rows, as types of JSON.

The agent's child decodes them, so that the daemon only passes them on.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ckptd.core.model import Checkpoint
from ckptd.core.rows.stored_checkpoints import CONTENT_FIELDS, RowContext, checkpoint_from_row
from ckptd.core.rows.stored_instants import encode_microseconds

_BYTES = tuple(CONTENT_FIELDS.index(name) for name in ("members", "details"))
_MODIFIED = CONTENT_FIELDS.index("modified_at")


def encode_content(row: Sequence[Any]) -> list[Any]:
    """Return the columns CONTENT_FIELDS of a row, as a database's driver gave them."""
    values = list(row)
    for place in _BYTES:
        if values[place] is not None:
            values[place] = b64encode(values[place]).decode()
    if isinstance(values[_MODIFIED], datetime):
        values[_MODIFIED] = encode_microseconds(values[_MODIFIED])
    return values


def decode_contents(sent: Sequence[Sequence[Any]], context: RowContext) -> list[Checkpoint]:
    """Return the checkpoints of a run.

    Raises:
        IndexError, KeyError, TypeError, ValueError: the values are not of `encode_content`'s form.

    """
    return [_decode(each, context) for each in sent]


def _decode(sent: Sequence[Any], context: RowContext) -> Checkpoint:
    values = list(sent)
    for place in _BYTES:
        if values[place] is not None:
            values[place] = b64decode(values[place], validate=True)
    return checkpoint_from_row(context, values)
