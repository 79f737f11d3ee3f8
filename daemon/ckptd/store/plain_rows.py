"""Columns for plain SQL, and how the values that a database driver returns become core values.

A column's name says what it holds; a test compares this with the types of the tables.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from enum import StrEnum
from typing import Any

from ckptd.core.model import CheckpointState, EndCause, JobState, Level, RestartKind, Role
from ckptd.store.plain_reads import instant
from ckptd.store.row_values import ATTEMPT_FIELDS, CHECKPOINT_FIELDS, JOB_FIELDS, RECORD_FIELDS
from ckptd.store.text_escapes import decode_text

_RENAMED = {"time_limit": "time_limit_seconds", "time_left": "time_left_seconds", "resumed_from": "resume"}
_JSON = frozenset(
    {
        "files", "free_space_samples", "grouping", "identities", "leftovers", "links", "mentions", "metrics",
        "owner_uids", "parts", "problems", "resolved", "resume", "retention_settings", "script_mentions",
        "settled_markers", "suspensions", "unsafe", "user_settings",
    }
)  # fmt: skip
_INSTANTS = frozenset({"suspended_until", "recorded_since"})
_WORDS: dict[str, type[StrEnum]] = {"cause": EndCause, "kind": RestartKind, "level": Level, "role": Role}

Decoder = Callable[[Any], Any]


class Columns:
    """Some columns of one table."""

    def __init__(self, names: Iterable[str], state: type[StrEnum] | None = None) -> None:
        """Take the names of columns or fields; `state` has the words of the column of that name."""
        self.names = tuple(_RENAMED.get(name, name) for name in names)
        words = _WORDS | ({} if state is None else {"state": state})
        self._decoders = tuple(choose_decoder(name, words) for name in self.names)

    def __len__(self) -> int:
        return len(self.names)

    def of(self, alias: str) -> str:
        """Return the columns for a statement in which the table has this alias."""
        return ", ".join(f'{alias}."{name}"' for name in self.names)

    def decode(self, row: Sequence[Any]) -> list[Any]:
        """Return the core values of these columns' values."""
        return [value if value is None else decode(value) for decode, value in zip(self._decoders, row, strict=True)]


def choose_decoder(name: str, words: Mapping[str, type[StrEnum]]) -> Decoder:
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


def decode_seconds(value: float) -> timedelta:
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


JOB = Columns(JOB_FIELDS, JobState)
ATTEMPT = Columns(ATTEMPT_FIELDS, JobState)
CHECKPOINT = Columns(CHECKPOINT_FIELDS, CheckpointState)
RECORD = Columns(RECORD_FIELDS)
JOB_KEY = Columns(("cluster", "job_id", "first_seen_at"))
RUN_KEY = Columns(("cluster", "uid", "directory"))
