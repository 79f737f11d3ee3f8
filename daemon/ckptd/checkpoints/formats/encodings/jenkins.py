"""Bob Jenkins's lookup3 hash (burtleburtle.net/bob/c/lookup3.c), HDF5's checksum of its newer metadata."""

_MASK = 0xFFFFFFFF


def _rotate(value: int, count: int) -> int:
    return ((value << count) | (value >> (32 - count))) & _MASK


def compute(data: bytes, start: int = 0) -> int:
    """Return the 32-bit hash of data."""
    a = b = c = (0xDEADBEEF + len(data) + start) & _MASK
    if not data:
        return c
    whole = (len(data) - 1) // 12 * 12
    for position in range(0, whole, 12):
        a, b, c = _add(data[position : position + 12], a, b, c)
        a, b, c = _mix(a, b, c)
    a, b, c = _add(data[whole:].ljust(12, b"\0"), a, b, c)
    return _finish(a, b, c)


def _add(block: bytes, a: int, b: int, c: int) -> tuple[int, int, int]:
    words = [int.from_bytes(block[at : at + 4], "little") for at in (0, 4, 8)]
    return (a + words[0]) & _MASK, (b + words[1]) & _MASK, (c + words[2]) & _MASK


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for count in (4, 6, 8, 16, 19, 4):
        a = ((a - c) & _MASK) ^ _rotate(c, count)
        c = (c + b) & _MASK
        a, b, c = b, c, a
    return a, b, c


def _finish(a: int, b: int, c: int) -> int:
    for count in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _rotate(b, count)) & _MASK
        a, b, c = b, c, a
    return b
