"""Columns for plain SQL, and how the values that a database driver returns become core values.

A column's name says what it holds; a test compares this with the types of the tables.
"""

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from ckptd.core.model import EndCause, JobState, RestartKind
from ckptd.core.rows.stored_checkpoints import CONTENT_FIELDS, RECORD_FIELDS
from ckptd.core.rows.stored_instants import instant
from ckptd.core.rows.text_escapes import decode_text
from ckptd.core.rows.word_codes import ROLE_CODES, STATE_CODES
from ckptd.store.row_values import ATTEMPT_FIELDS, JOB_FIELDS

_RENAMED = {"time_limit": "time_limit_seconds", "time_left": "time_left_seconds", "resumed_from": "resume"}
_JSON = frozenset(
    {
        "comparisons", "free_space_samples", "leftovers", "links", "mentions", "owner_uids", "problems", "resolved",
        "resume", "retention_settings", "script_mentions", "settled_markers", "summed_checkpoints", "suspensions",
        "unrecognised_file", "unsafe", "user_settings",
    }
)  # fmt: skip
_INSTANTS = frozenset({"suspended_until", "recorded_since"})
Decoder = Callable[[Any], Any]
_WORDS: dict[str, Decoder] = {"cause": EndCause, "kind": RestartKind}


class Columns:
    """Some columns of one table."""

    def __init__(self, names: Iterable[str], words: Mapping[str, Decoder] | None = None) -> None:
        """Take the names of columns or fields; `words` decodes those that are words in this table."""
        self.names = tuple(_RENAMED.get(name, name) for name in names)
        decoders = {**_WORDS, **(words or {})}
        self._decoders = tuple(choose_decoder(name, decoders) for name in self.names)

    def __len__(self) -> int:
        return len(self.names)

    def of(self, alias: str) -> str:
        """Return the columns for a statement in which the table has this alias."""
        return ", ".join(f'{alias}."{name}"' for name in self.names)

    def decode(self, row: Sequence[Any]) -> list[Any]:
        """Return the core values of these columns' values."""
        return [value if value is None else decode(value) for decode, value in zip(self._decoders, row, strict=True)]


def choose_decoder(name: str, words: Mapping[str, Decoder]) -> Decoder:
    """Return the function that makes a core value of a column's value."""
    if name in words:
        return words[name]
    if name in _JSON:
        return json.loads
    if name.endswith("_at") or name in _INSTANTS:
        return instant
    if name.endswith("_seconds"):
        return decode_seconds
    if name.startswith("is_"):
        return bool
    if name.endswith("epoch"):
        return decode_number
    return decode_any


def decode_code(codes: Mapping[Any, int]) -> Decoder:
    """Return the function that makes a word of its number."""
    return {code: word for word, code in codes.items()}.__getitem__


@functools.lru_cache(maxsize=4096)
def decode_seconds(value: float) -> timedelta:
    """Return a duration, the same object for equal ones: few limits cover thousands of jobs."""
    return timedelta(seconds=value)


def decode_day(value: str | date) -> date:
    """Return a day; SQLite has text."""
    return date.fromisoformat(value) if isinstance(value, str) else value


def decode_number(value: float) -> float:
    """Return a number; a whole one as int."""
    return int(value) if float(value).is_integer() else value


def decode_any(value: Any) -> Any:
    """Return text as it was written, and whole numbers as they are."""
    return decode_text(value) if isinstance(value, str) else value


def list_numbers(row_ids: Iterable[int]) -> str:
    """Return row ids for `IN (...)`; NULL, which equals nothing, if there are none."""
    return ", ".join(str(int(row_id)) for row_id in row_ids) or "NULL"


CHECKPOINT_WORDS = {"state": decode_code(STATE_CODES), "role": decode_code(ROLE_CODES)}
JOB = Columns(JOB_FIELDS, {"state": JobState})
ATTEMPT = Columns(ATTEMPT_FIELDS, {"state": JobState})
CONTENT = Columns(CONTENT_FIELDS, CHECKPOINT_WORDS)
RECORD = Columns(RECORD_FIELDS)
JOB_KEY = Columns(("cluster", "job_id", "first_seen_at"))
RUN_KEY = Columns(("cluster", "uid", "directory"))
