"""The checkpoints of a history, and what its attempts may have loaded, in a thirtieth of the memory.

They are unpacked each time that somebody reads them, and packed again by nobody. Those of different runs are alike, so
the first ones become zlib's dictionary for those that follow.
"""

import functools
import io
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeVar, cast, overload

from ckptd.core.model import (
    Attempt,
    Checkpoint,
    Grouping,
    RecordedCheckpoint,
    ResumeCandidate,
    Role,
    RunHistory,
    RunRecord,
)

T = TypeVar("T")
RecordT = TypeVar("RecordT", bound=RunRecord)
FEW = 4  # candidates, which are left as they are
_LEVEL = 1  # zlib's fastest: the columns of one run are alike
_SAMPLED = 2  # histories of which the dictionary is made
_LEAST_BYTES, _MOST_BYTES = 4096, 16384  # of each: zlib reads the last 32 KiB of a dictionary
_PACKED = (RecordedCheckpoint, Checkpoint, Grouping)
_NAMES: dict[type, tuple[str, ...]] = {kind: tuple(each.name for each in fields(kind)) for kind in _PACKED}
_READ: dict[type, Callable[[object], tuple[Any, ...]]] = {kind: attrgetter(*names) for kind, names in _NAMES.items()}
_SET: dict[type, tuple[Callable[[object, Any], None], ...]] = {
    kind: tuple(getattr(kind, name).__set__ for name in names) for kind, names in _NAMES.items()
}  # of the slots, because a frozen instance refuses an assignment


class _Packer(pickle.Pickler):
    """Pickles checkpoints as their values: what dataclasses do by themselves takes ten times as long to read."""

    def reducer_override(self, value: object) -> Any:
        read = _READ.get(type(value))
        return NotImplemented if read is None else (_build, (type(value), read(value)))


def _build(kind: type, values: tuple[Any, ...]) -> object:
    made: object = object.__new__(kind)
    for assign, value in zip(_SET[kind], values, strict=True):
        assign(made, value)
    return made


class _Dictionary:
    """What the first values of this process have in common; it never changes once it is complete."""

    def __init__(self) -> None:
        self._samples: list[bytes] = []
        self._complete = b""

    def learn(self, content: memoryview) -> bytes:
        """Return the dictionary for this content, empty until enough was seen."""
        if not self._complete and len(content) >= _LEAST_BYTES:
            self._samples.append(bytes(content[:_MOST_BYTES]))
            if len(self._samples) >= _SAMPLED:
                self._complete = b"".join(self._samples)
        return self._complete


_dictionary = _Dictionary()


class _Packed(Sequence[T]):
    """A tuple of values that takes little memory; it equals the tuple that it was made of."""

    __slots__ = ("_content", "_count", "_dictionary")

    def __init__(self, values: Sequence[T]) -> None:
        self._count = len(values)
        content = io.BytesIO()
        _Packer(content, pickle.HIGHEST_PROTOCOL).dump(tuple(values))
        with content.getbuffer() as whole:
            self._dictionary = _dictionary.learn(whole)
            packer = zlib.compressobj(_LEVEL, zdict=self._dictionary)
            self._content = packer.compress(whole) + packer.flush()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, tuple):
            return self._count == len(other) and self.unpack() == other
        if not isinstance(other, _Packed):
            return NotImplemented
        return self._count == other._count and (self._content == other._content or self.unpack() == other.unpack())

    __hash__ = None  # type: ignore[assignment]

    def unpack(self) -> tuple[T, ...]:
        """Return the values; each call makes new ones."""
        content = zlib.decompressobj(zdict=self._dictionary).decompress(self._content)
        return cast("tuple[T, ...]", pickle.loads(content))  # noqa: S301 - this process packed it

    @property
    def size_bytes(self) -> int:
        """The memory that they take."""
        return len(self._content)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return iter(self.unpack())

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self.unpack()[index]


class PackedCheckpoints(_Packed[RecordedCheckpoint]):
    """The recorded checkpoints of one run, oldest first.

    Scans ask when a run saved last, and what: this is known without unpacking.
    """

    __slots__ = ("last_modified_at", "roles")

    def __init__(self, checkpoints: Sequence[RecordedCheckpoint]) -> None:
        super().__init__(checkpoints)
        self.last_modified_at = _last_modified_at(checkpoints)
        self.roles = _roles_of(checkpoints)


class PackedCandidates(_Packed[ResumeCandidate]):
    """The checkpoints that one attempt may have loaded."""

    __slots__ = ()


def pack(record: RecordT) -> RecordT:
    """Return a record or history that takes little memory; what is packed in it reads as the tuple did."""
    found: object = record.checkpoints
    attempts = tuple(map(_pack_attempt, record.attempts))
    if not isinstance(found, PackedCheckpoints):
        packed = cast("tuple[RecordedCheckpoint, ...]", PackedCheckpoints(record.checkpoints))
        return replace(record, checkpoints=packed, attempts=attempts)
    is_packed = all(mine is theirs for mine, theirs in zip(attempts, record.attempts, strict=True))
    return record if is_packed else replace(record, attempts=attempts)


def _pack_attempt(attempt: Attempt) -> Attempt:
    resume = attempt.resumed_from
    if resume is None or len(resume.candidates) < FEW or isinstance(cast("object", resume.candidates), _Packed):
        return attempt
    packed = cast("tuple[ResumeCandidate, ...]", PackedCandidates(resume.candidates))
    return replace(attempt, resumed_from=replace(resume, candidates=packed))


def unpack(history: RunHistory) -> RunHistory:
    """Return a history with tuples in place of what is packed, for those who read it more than once."""
    found: object = history.checkpoints
    if not isinstance(found, PackedCheckpoints):
        return history
    return replace(history, checkpoints=found.unpack(), attempts=tuple(map(_unpack_attempt, history.attempts)))


def _unpack_attempt(attempt: Attempt) -> Attempt:
    resume = attempt.resumed_from
    found: object = None if resume is None else resume.candidates
    if resume is None or not isinstance(found, PackedCandidates):
        return attempt
    return replace(attempt, resumed_from=replace(resume, candidates=found.unpack()))


def last_modified_at(checkpoints: Sequence[RecordedCheckpoint]) -> datetime | None:
    """Return when the newest of a run's checkpoints was modified, deleted or not; None if there is none."""
    found: object = checkpoints
    return found.last_modified_at if isinstance(found, PackedCheckpoints) else _last_modified_at(checkpoints)


def roles_of(checkpoints: Sequence[RecordedCheckpoint]) -> frozenset[Role]:
    """Return the roles of the checkpoints that are on disk."""
    found: object = checkpoints
    return found.roles if isinstance(found, PackedCheckpoints) else _roles_of(checkpoints)


@functools.cache
def _share_roles(roles: frozenset[Role]) -> frozenset[Role]:
    """Return one object for equal sets: thousands of runs have the same roles."""
    return roles


def _last_modified_at(checkpoints: Iterable[RecordedCheckpoint]) -> datetime | None:
    return max((each.checkpoint.modified_at for each in checkpoints), default=None)


def _roles_of(checkpoints: Iterable[RecordedCheckpoint]) -> frozenset[Role]:
    return _share_roles(frozenset(each.checkpoint.role for each in checkpoints if each.deleted_at is None))
