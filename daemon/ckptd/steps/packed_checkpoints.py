"""The checkpoints of a history in a tenth of the memory, for runs that do not change.

They are unpacked each time that somebody reads them, and packed again by nobody.
"""

import io
import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, cast, overload

from ckptd.core.model import Checkpoint, Grouping, RecordedCheckpoint, RunHistory

_LEVEL = 1  # zlib's fastest: the columns of one run are alike
_PACKED = (RecordedCheckpoint, Checkpoint, Grouping)
_NAMES: dict[type, tuple[str, ...]] = {kind: tuple(each.name for each in fields(kind)) for kind in _PACKED}
_READ: dict[type, Callable[[object], tuple[Any, ...]]] = {kind: attrgetter(*names) for kind, names in _NAMES.items()}


class _Packer(pickle.Pickler):
    """Pickles checkpoints as their values: what dataclasses do by themselves takes ten times as long to read."""

    def reducer_override(self, value: object) -> Any:
        read = _READ.get(type(value))
        return NotImplemented if read is None else (_build, (type(value), read(value)))


def _build(kind: type, values: tuple[Any, ...]) -> object:
    made: object = object.__new__(kind)
    for name, value in zip(_NAMES[kind], values, strict=True):
        object.__setattr__(made, name, value)
    return made


class PackedCheckpoints(Sequence[RecordedCheckpoint]):
    """The recorded checkpoints of one run, oldest first."""

    __slots__ = ("_content", "_count")

    def __init__(self, checkpoints: Sequence[RecordedCheckpoint]) -> None:
        self._count = len(checkpoints)
        content = io.BytesIO()
        _Packer(content, pickle.HIGHEST_PROTOCOL).dump(tuple(checkpoints))
        self._content = zlib.compress(content.getbuffer(), _LEVEL)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedCheckpoints):
            return NotImplemented
        return self._count == other._count and (self._content == other._content or self.unpack() == other.unpack())

    __hash__ = None  # type: ignore[assignment]

    def unpack(self) -> tuple[RecordedCheckpoint, ...]:
        """Return the checkpoints; each call makes new ones."""
        content = pickle.loads(zlib.decompress(self._content))  # noqa: S301 - this process packed it
        return cast("tuple[RecordedCheckpoint, ...]", content)

    @property
    def size_bytes(self) -> int:
        """The memory that they take."""
        return len(self._content)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[RecordedCheckpoint]:
        return iter(self.unpack())

    @overload
    def __getitem__(self, index: int) -> RecordedCheckpoint: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[RecordedCheckpoint, ...]: ...

    def __getitem__(self, index: int | slice) -> RecordedCheckpoint | tuple[RecordedCheckpoint, ...]:
        return self.unpack()[index]


def is_packed(history: RunHistory) -> bool:
    """Whether a history's checkpoints are packed."""
    found: object = history.checkpoints
    return isinstance(found, PackedCheckpoints)


def pack(history: RunHistory) -> RunHistory:
    """Return a history that takes little memory; its checkpoints are a sequence that reads as the tuple did."""
    packed = cast("tuple[RecordedCheckpoint, ...]", PackedCheckpoints(history.checkpoints))
    return replace(history, checkpoints=packed)


def unpack(history: RunHistory) -> RunHistory:
    """Return a history with its checkpoints as a tuple, for those who read them more than once."""
    found: object = history.checkpoints
    return replace(history, checkpoints=found.unpack()) if isinstance(found, PackedCheckpoints) else history
