"""Makes what users wrote safe to show: nothing in it starts a line, a header or a command of its own."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo

from ckptd.core.model import Evidence
from ckptd.core.titles import label_of

MAX_VALUE = 300


def clean(text: object, limit: int = MAX_VALUE) -> str:
    """Return one line of visible characters: others are shown as escapes, what is too long is cut in the middle."""
    shown = "".join(_escape(character) for character in str(text)[: limit * 2])
    if len(shown) <= limit:
        return shown
    half = limit // 2 - 1
    return f"{shown[:half]}…{shown[-half:]}"


def _escape(character: str) -> str:
    if character.isprintable():  # no controls, direction marks, surrogates, line ends, blanks but the plain one
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # a byte that is not UTF-8
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def format_evidence(rule: str, evidence: Mapping[str, Evidence], zone: tzinfo | None = UTC) -> list[tuple[str, str]]:
    """Return the numbers of a flag as people read them, each with its name; what is not known is left out."""
    labelled = [(label_of(rule, name), name, value) for name, value in list(evidence.items())[:30]]
    return [
        (clean(label, 60), _format(name, value, zone))
        for label, name, value in labelled
        if label is not None and value is not None and value != []
    ]


def _format(name: str, value: Evidence, zone: tzinfo | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        shown = ", ".join(clean(each, 100) for each in value[:10])
        return shown + (f" and {len(value) - 10} more" if len(value) > 10 else "")
    if isinstance(value, (int, float)):
        if name.endswith("_seconds"):
            return format_duration(timedelta(seconds=value))
        if name.endswith("_bytes"):
            return format_size(value)
        if name in {"share", "chance"}:
            return f"{value:.0%}"
        if name.endswith("_uid"):
            return str(value)
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    if name.endswith("_at"):
        try:
            return format_instant(datetime.fromisoformat(str(value)), zone)
        except ValueError:
            return clean(value)
    return clean(value)


def format_instant(at: datetime, zone: tzinfo | None = UTC) -> str:
    """Say an instant in a zone, None for that of this host."""
    shown = at.astimezone(zone)
    return f"{shown:%Y-%m-%d %H:%M} {shown.tzname()}"


def format_duration(duration: timedelta) -> str:
    """Return a length of time by its two greatest units."""
    seconds = round(duration.total_seconds())
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s")]
    first = next((index for index, (count, _) in enumerate(parts) if count), 3)
    return sign + " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count or first == 3)


def format_size(size_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.3g} {unit}" if abs(size_bytes) < 1000 else f"{size_bytes:.0f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:,.0f} PiB"
