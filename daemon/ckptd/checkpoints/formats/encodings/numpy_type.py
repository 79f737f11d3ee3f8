"""Sizes of numpy's element types, from their descriptions alone."""

import re
from typing import Any

from ckptd.checkpoints.formats.encodings.pickle_values import Opaque
from ckptd.checkpoints.formats.interface import DamagedError

_CODE = re.compile(r"^[<>|=]?([biufcSUVmMO?])(\d*)(?:\[\w+\])?$")


def item_bytes(dtype: Any) -> int | None:
    """Return the bytes of one element of a type as a pickle or a header describes it; None for objects.

    Raises:
        DamagedError: it describes no type.

    """
    if isinstance(dtype, Opaque) and dtype.full_name == "numpy.dtype" and isinstance(dtype.args, tuple) and dtype.args:
        if isinstance(dtype.args[0], str) and dtype.args[0].startswith("V"):
            return _void_bytes(dtype)
        return item_bytes(dtype.args[0])
    if isinstance(dtype, str):
        return _code_bytes(dtype)
    if isinstance(dtype, list) and len(dtype) < 10_000:
        sizes = [_field_bytes(field) for field in dtype]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    raise DamagedError("an array's type is garbled")


def _code_bytes(code: str) -> int | None:
    found = _CODE.match(code)
    if not found or len(code) > 64:
        raise DamagedError(f"no array has type {code[:64]!r}")
    letter, digits = found.groups()
    if letter == "O":
        return None
    if letter == "?":
        return 1
    count = int(digits or 0)
    return 4 * count if letter == "U" else count


def _void_bytes(dtype: Opaque) -> int | None:
    """Return the bytes of a record: its state names the size, and whether it holds objects is in its fields."""
    fields = dtype.state[4] if isinstance(dtype.state, tuple) and len(dtype.state) > 5 else None
    if isinstance(fields, dict):
        parts = [item_bytes(part[0]) for part in fields.values() if isinstance(part, tuple) and part]
        if None in parts:
            return None
    return _code_bytes(str(dtype.args[0]))


def _field_bytes(field: Any) -> int | None:
    if not isinstance(field, tuple) or len(field) < 2:
        raise DamagedError("an array's type is garbled")
    size = item_bytes(field[1])
    shape = field[2] if len(field) > 2 else ()
    if size is None or not isinstance(shape, tuple):
        return None
    for side in shape:
        if not isinstance(side, int) or side < 0:
            raise DamagedError("an array's type is garbled")
        size *= side
    return size
