"""Text as both databases store it.

Text that users wrote may contain NUL, which PostgreSQL refuses, and lone surrogates for bytes that are not UTF-8, which
neither database can encode. Such characters, and the backslash itself, are written as backslash escapes: reversible,
readable in SQL, and equal texts stay equal. Ordinary text is stored as it is.
"""

import functools
import re

_AWKWARD = re.compile("[\\\\\x00\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(?:\\|u([0-9a-f]{4}))")


@functools.lru_cache(maxsize=4096)
def share_text(value: str) -> str:
    """Return the same object for equal texts. Python 3.12 would keep interned ones for ever."""
    return value


def encode_text(value: str) -> str:
    """Return text in a form that every database can store."""
    if value.isascii() and "\\" not in value and "\x00" not in value:
        return value
    return _AWKWARD.sub(lambda found: "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}", value)


def decode_text(value: str) -> str:
    """Undo `encode_text`; return the same object for equal texts, of which rows have many."""
    if "\\" not in value:
        return share_text(value)
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\\", value)
