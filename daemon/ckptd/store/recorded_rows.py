"""The checkpoints of a run as rows, of which each is decoded when somebody looks at it.

A directory may have thousands of checkpoints, of which one is new. Those that a scan finds as they were are neither
decoded here nor sent back.
"""

import pickle
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, overload

from ckptd.core.model import CheckpointState, JobKey, RecordedCheckpoint
from ckptd.core.rows.sent_checkpoints import encode_content
from ckptd.core.rows.stored_checkpoints import (
    RECORD_FIELDS,
    RowContext,
    SharedAttempts,
    checkpoint_from_row,
    read_level,
)
from ckptd.core.rows.stored_comparisons import decode_comparisons
from ckptd.core.rows.stored_instants import instant
from ckptd.core.rows.word_codes import STATE_CODES
from ckptd.core.runs.progress import identify, stays_as_found
from ckptd.store.plain_rows import CONTENT, JOB_KEY, RECORD

Attempt = tuple[JobKey, int]
_ATTEMPT = slice(1, 5)  # behind the row id of the run
_RECORD = slice(_ATTEMPT.stop, _ATTEMPT.stop + len(RECORD))
_CONTENT = slice(_RECORD.stop, _RECORD.stop + len(CONTENT))
_FIRST_SEEN, _COMPLETED = (_RECORD.start + RECORD.names.index(name) for name in ("first_seen_at", "completed_at"))
_PATH, _FORMAT, _DETAILS, _SIZE, _MODIFIED, _STATE = (
    _CONTENT.start + CONTENT.names.index(name)
    for name in ("path", "format", "details", "size_bytes", "modified_at", "state")
)
_STATES = {code: state for state, code in STATE_CODES.items()}
_FAST = 1  # level of zlib


class SavedSize(NamedTuple):
    """What sums over checkpoints need."""

    state: CheckpointState
    modified_at: datetime
    size_bytes: int


class RecordedRows(Sequence[RecordedCheckpoint]):
    """Checkpoints of one run, oldest first."""

    __slots__ = ("_attempts", "_context", "_count", "_decoded", "_packed", "_unpacked")

    def __init__(self, rows: Iterable[Sequence[Any]], context: RowContext, attempts: SharedAttempts) -> None:
        """Take rows of `checkpoint_rows`, in any order."""
        self._unpacked: list[Sequence[Any]] | None = sorted(rows, key=_age_order)
        self._count = len(self._unpacked)
        self._packed = b""
        self._context = context
        self._attempts = attempts
        self._decoded: dict[int, RecordedCheckpoint] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> RecordedCheckpoint: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[RecordedCheckpoint, ...]: ...

    def __getitem__(self, index: int | slice) -> RecordedCheckpoint | tuple[RecordedCheckpoint, ...]:
        if isinstance(index, slice):
            return tuple(map(self._decode, range(*index.indices(len(self)))))
        return self._decode(range(len(self))[index])

    def pack(self) -> None:
        """Compress the rows until somebody looks at them again: those of a large directory, while it is scanned."""
        if self._unpacked is not None:
            self._packed = zlib.compress(pickle.dumps(self._unpacked, pickle.HIGHEST_PROTOCOL), _FAST)
            self._unpacked = None
            self._decoded.clear()

    @property
    def _rows(self) -> list[Sequence[Any]]:
        if self._unpacked is None:
            self._unpacked = pickle.loads(zlib.decompress(self._packed))  # noqa: S301 - of this process
            self._packed = b""
        return self._unpacked

    def encode(self, numbers: Iterable[int]) -> Iterator[list[Any]]:
        """Yield those with these numbers as the agent takes them; it knows the directory and its owner."""
        rows = self._rows
        return (encode_content(rows[number][_CONTENT]) for number in numbers)

    def find_at(self, paths: Iterable[str]) -> frozenset[int]:
        """Return the numbers of those at some paths."""
        wanted = frozenset(paths)
        return frozenset(number for number, each in enumerate(self) if str(each.checkpoint.path) in wanted)

    def list_unsettled(self, unchanged: Iterable[int]) -> list[int]:
        """Return the numbers of those that a scan may change, where it found these as they were."""
        found = frozenset(unchanged)
        names = {(row[_PATH], row[_FORMAT]) for row in self._rows}
        if len(names) < len(self._rows):  # an earlier version recorded one twice
            return [*range(len(self))]
        return [number for number, row in enumerate(self._rows) if number not in found or not _stays(row)]

    def list_saves(self) -> Iterator[tuple[Attempt | None, datetime]]:
        """Yield which attempt completed each checkpoint that was complete, and when."""
        for row in self._rows:
            if (completed_at := instant(row[_COMPLETED])) is not None:
                yield _read_attempt(row, self._attempts), completed_at

    def list_sizes(self, without: Collection[object]) -> Iterator[SavedSize]:
        """Yield what sums need of all but those that `identify` calls so, which somebody has looked at."""
        left_out = {number for number, each in self._decoded.items() if identify(each) in without}
        for number, row in enumerate(self._rows):
            if number not in left_out:
                modified_at = instant(row[_MODIFIED])
                assert modified_at is not None
                yield SavedSize(_STATES[row[_STATE]], modified_at, row[_SIZE])

    def _decode(self, number: int) -> RecordedCheckpoint:
        found = self._decoded.get(number)
        if found is None:
            found = decode_row(self._rows[number], self._context, self._attempts)
            self._decoded[number] = found
        return found


def decode_row(row: Sequence[Any], context: RowContext, attempts: SharedAttempts) -> RecordedCheckpoint:
    """Return the checkpoint of a row of `checkpoint_rows`."""
    record = dict(zip(RECORD_FIELDS, RECORD.decode(row[_RECORD]), strict=True))
    record["comparisons"] = decode_comparisons(record["comparisons"])
    return RecordedCheckpoint(
        checkpoint=checkpoint_from_row(context, row[_CONTENT]), attempt=_read_attempt(row, attempts), **record
    )


def _read_attempt(row: Sequence[Any], attempts: SharedAttempts) -> Attempt | None:
    *key, restart_count = row[_ATTEMPT]
    return None if key[0] is None else attempts.share(JobKey(*JOB_KEY.decode(key)), restart_count)


def _age_order(row: Sequence[Any]) -> tuple[Any, ...]:
    return row[_FIRST_SEEN], row[_MODIFIED], row[_PATH]


def _stays(row: Sequence[Any]) -> bool:
    state, level = _STATES[row[_STATE]], read_level(row[_DETAILS])
    return stays_as_found(state, level, row[_FIRST_SEEN], row[_COMPLETED], row[_MODIFIED])


NO_ROWS = RecordedRows((), RowContext("", 0), SharedAttempts())
