"""Checkpoints as requests carry those that are on record."""

import json
from dataclasses import replace
from datetime import UTC, datetime

from ckptd.core.model import RecordedCheckpoint
from ckptd.core.rows.sent_checkpoints import encode_content
from ckptd.core.rows.stored_checkpoints import CONTENT_FIELDS, RowContext, checkpoint_to_row
from ckptd.core.rows.stored_instants import encode_sqlite
from ckptd.core.rows.text_escapes import encode_text
from ckptd.core.rows.word_codes import ROLE_CODES, STATE_CODES

_WORDS = {"state": STATE_CODES, "role": ROLE_CODES}


def encode_known(checkpoints, directory, uid):
    """Return what a scan request says about these checkpoints of a directory, whose run has this owner."""
    context = RowContext(str(directory), uid)
    seen_at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        checkpoint_to_row(RecordedCheckpoint(checkpoint=each, first_seen_at=seen_at), context) for each in checkpoints
    ]
    return [encode_content(list_content(row)) for row in rows]


def complete(scan, known):
    """Return a scan whose request listed these checkpoints, with all that it found."""
    same = tuple(known[number] for number in scan.unchanged)
    return replace(scan, checkpoints=(*same, *scan.checkpoints), unchanged=())


def list_content(row):
    """Return the columns of a checkpoint as SQLite gives them."""
    return [_encode(name, encode_sqlite(row[name])) for name in CONTENT_FIELDS]


def _encode(name, value):
    if name in _WORDS:
        return _WORDS[name][value]
    if isinstance(value, list):
        return json.dumps(value)
    return encode_text(value) if isinstance(value, str) else value
