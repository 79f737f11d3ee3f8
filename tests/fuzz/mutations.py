"""Damages bytes in the ways that disks, interrupted writers and attackers do."""

import gzip
import struct
import zlib

NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1)
WORDS = (
    b"-1",
    b"1e999",
    b"99999999999999999999",
    b"NaN",
    b"null",
    b"[" * 5000,
    b"{}",
    b"../" * 40,
    b"\0",
    b'"',
    b"\xff\xfe",
)


def mutate(random, data, others):
    """Return the data, damaged once to eight times; `others` are files to take pieces from."""
    if data[:2] == b"\x1f\x8b" and random.random() < 0.7:
        try:
            return gzip.compress(_mutate(random, gzip.decompress(data), others), 1)
        except (OSError, EOFError, zlib.error):
            pass
    return _mutate(random, data, others)


def _mutate(random, data, others):
    data = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        random.choice(KINDS)(random, data, others)
    return bytes(data)


def _place(random, data, width=1):
    """Prefer the ends, where headers, footers and indexes are."""
    last = max(0, len(data) - width)
    near = min(last, 512)
    return random.choice((random.randint(0, last), random.randint(0, near), last - random.randint(0, near)))


def flip(random, data, others):
    if data:
        data[_place(random, data)] ^= 1 << random.randint(0, 7)


def set_byte(random, data, others):
    if data:
        data[_place(random, data)] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randint(0, 255)))


def set_number(random, data, others):
    code = random.choice(("<H", ">H", "<I", ">I", "<Q", ">Q"))
    width = struct.calcsize(code)
    if len(data) >= width:
        at = _place(random, data, width)
        number = random.choice((*NUMBERS, len(data), len(data) + 1, len(data) - 1)) & ((1 << 8 * width) - 1)
        data[at : at + width] = struct.pack(code, number)


def cut(random, data, others):
    del data[_place(random, data) :]


def remove(random, data, others):
    at = _place(random, data)
    del data[at : at + random.choice((1, 2, 4, 8, 100, 4096))]


def insert(random, data, others):
    at = _place(random, data)
    data[at:at] = random.choice((random.randbytes(random.randint(1, 64)), *WORDS))


def put_word(random, data, others):
    word = random.choice(WORDS)
    at = _place(random, data)
    data[at : at + len(word)] = word


def zero(random, data, others):
    at = _place(random, data)
    count = min(len(data) - at, random.choice((4, 64, 512, 4096, len(data))))
    data[at : at + count] = bytes(count)


def repeat(random, data, others):
    at = _place(random, data)
    count = random.randint(1, 256)
    data[at:at] = data[at : at + count] * random.choice((1, 2, 50))


def splice(random, data, others):
    other = random.choice(others)
    start = random.randint(0, max(0, len(other) - 1))
    at = _place(random, data)
    piece = other[start : start + random.choice((4, 16, 256, 4096))]
    data[at : at + len(piece)] = piece


def number_in_text(random, data, others):
    """Replace one run of digits by another number."""
    places = [at for at in range(min(len(data), 4096)) if 0x30 <= data[at] <= 0x39]
    if places:
        at = random.choice(places)
        end = at
        while end < len(data) and 0x30 <= data[end] <= 0x39:
            end += 1
        data[at:end] = random.choice((b"0", b"-1", b"4294967296", b"9" * 30, b"1e308", b""))


KINDS = (flip, set_byte, set_number, cut, remove, insert, put_word, zero, repeat, splice, number_in_text)
