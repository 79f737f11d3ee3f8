"""Values as people read them, the same in the terminal, on pages and in messages.

Text that users wrote is harmless afterwards: nothing in it starts a line, a header or a command of its own.
"""

import difflib
from collections.abc import Collection
from datetime import UTC, datetime, timedelta, tzinfo

MAX_TEXT = 300


def safe(value: object) -> str:
    """Make text that users wrote harmless to show: what is not visible, and bytes of no UTF-8, become escapes."""
    return "-" if value is None else "".join(_escape(character) for character in str(value))


def _escape(character: str) -> str:
    if character.isprintable():  # no controls, direction marks, surrogates, line ends, blanks but the plain one
        return character
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"  # a byte that is not UTF-8
    return character.encode("unicode_escape").decode()


def clean(text: object, limit: int = MAX_TEXT) -> str:
    """Return one line of harmless text; what is too long is cut in the middle."""
    shown = safe(str(text)[: limit * 2])
    if len(shown) <= limit:
        return shown
    half = limit // 2 - 1
    return f"{shown[:half]}…{shown[-half:]}"


def nearest(name: str, known: Collection[str]) -> str:
    """Ask whether a known name was meant that is like this one; nothing where none is."""
    match = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {match[0]!r}?" if match else ""


def format_instant(at: datetime, zone: tzinfo | None = UTC) -> str:
    """Say an instant in a zone, None for that of this host."""
    shown = at.astimezone(zone)
    return f"{shown:%Y-%m-%d %H:%M} {shown.tzname()}"


def format_count(count: int, noun: str) -> str:
    """Say how many there are: `1 flag`, `2,000 flags`; the noun makes its plural with an s."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_duration(duration: timedelta | None) -> str:
    """Say a duration in its two largest units: `2d 3h`, `5m 12s`."""
    if duration is None:
        return "-"
    seconds = round(duration.total_seconds())
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    told = [f"{count}{unit}" for count, unit in parts if count][:2]
    return sign + (" ".join(told) or "0s")


def format_size(size_bytes: float | None) -> str:
    """Say a size in binary units: `3.2 GiB`."""
    if size_bytes is None:
        return "-"
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} PiB"
