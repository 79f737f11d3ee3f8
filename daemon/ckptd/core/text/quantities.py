"""Durations and sizes as people write them in configurations, `"1h30m"` and `"500GiB"`, and durations for people."""

import re
from datetime import timedelta

DURATION_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZE_UNITS = {"": 1, "B": 1} | {
    prefix + end: base**power
    for power, prefix in enumerate("KMGTP", 1)
    for end, base in (("", 1024), ("iB", 1024), ("B", 1000))
}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+", re.ASCII)
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGTP]?(?:iB|B)?)", re.ASCII)


def parse_duration(value: object) -> object:
    """Read `"90s"`, `"1h30m"` or `"7d"`; return anything else unchanged, for the field's type to reject."""
    if isinstance(value, str) and _DURATION.fullmatch(value):
        parts = re.findall(r"(\d+(?:\.\d+)?)([smhdw])", value)
        try:
            return timedelta(seconds=sum(float(number) * DURATION_UNITS[unit] for number, unit in parts))
        except OverflowError:
            return value
    return value


def format_duration(duration: timedelta | None) -> str:
    """Format a duration in its two largest units: `2 d 3 h`, `5 min 12 s`."""
    if duration is None:
        return "-"
    seconds = round(duration.total_seconds())
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s")]
    shown = [f"{count} {unit}" for count, unit in parts if count][:2]
    return sign + (" ".join(shown) or "0 s")


def parse_size(value: object) -> object:
    """Read `"500GiB"` or `"2TB"` as bytes (a single letter is binary); return anything else unchanged."""
    if isinstance(value, str) and (found := _SIZE.fullmatch(value)) and found[2] in _SIZE_UNITS:
        return int(float(found[1]) * _SIZE_UNITS[found[2]])
    return value
