"""Reads pickles of protocols 0 to 5 without unpickling them, so that no code in them can run.

It never imports a name and never calls one. It builds containers, numbers and strings; everything else becomes a
placeholder, and every name that unpickling would import is listed. It is a loop over opcodes, not a recursion, and
opcodes, held bytes and the copies that constructors make are bounded. The result may share values and contain
itself: walk it with a bound, as `facts.py` does.

Opcodes: CPython's Lib/pickletools.py.
"""

import io
from dataclasses import dataclass
from typing import Any, BinaryIO

from ckptd.checkpoints.formats.encodings.byte_source import ByteSource
from ckptd.checkpoints.formats.encodings.pickle_machine import PickleLimits, PickleMachine
from ckptd.checkpoints.formats.encodings.pickle_opcodes import HANDLERS
from ckptd.checkpoints.formats.interface import DamagedError


@dataclass(frozen=True, kw_only=True, slots=True)
class Pickle:
    """One pickle, read. `globals` and `unsafe` are full names, sorted; `end` is the offset behind STOP."""

    value: Any
    globals: tuple[str, ...]
    unsafe: tuple[str, ...]
    persistent_ids: tuple[Any, ...]
    nested: tuple[Any, ...]  # files of torch inside, as bytes or `Elided`, that torch would load in turn
    end: int
    protocol: int


def read_pickle(
    source: BinaryIO | bytes,
    *,
    size_bytes: int | None = None,
    limits: PickleLimits | None = None,
    start: int = 0,
    machine: type[PickleMachine] = PickleMachine,
) -> Pickle:
    """Read one pickle from the current position; bytes after its STOP opcode are not read.

    `size_bytes` is the maximum that the source can hold from here, or None if not known, as after a decompressor.
    `start` is added to the offsets in messages and in `end`. `machine` is for pickles with extra data between opcodes.

    Raises:
        DamagedError: it is no pickle, or it is truncated.
        TooLargeError: it needs more opcodes or memory than the limits allow.

    """
    if isinstance(source, bytes):
        size_bytes = len(source)
        source = io.BytesIO(source)
    reading = machine(ByteSource(source, size_bytes), limits or PickleLimits(), HANDLERS)
    try:
        value = reading.run()
    except IndexError as error:
        raise DamagedError(f"not a pickle: nothing on its stack at byte {start + reading.position}") from error
    except (ValueError, TypeError, OverflowError) as error:
        raise DamagedError(f"not a pickle: {error} at byte {start + reading.position}") from error
    return Pickle(
        value=value,
        globals=tuple(sorted(reading.globals)),
        unsafe=tuple(sorted(reading.unsafe)),
        persistent_ids=tuple(reading.persistent_ids),
        nested=tuple(reading.nested),
        end=start + reading.position,
        protocol=reading.protocol,
    )
