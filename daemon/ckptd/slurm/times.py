"""Parses Slurm's durations and instants.

Slurm's words for unlimited, unset and not applicable become None; any other text that is not of Slurm's form is an
error.
"""

import re
from datetime import UTC, datetime, timedelta

# "INVALID" means a time past its limit, and also one above a year (secs2time_str in Slurm's parse_time.c).
INVALID = "INVALID"
ABSENT_DURATIONS = frozenset({"UNLIMITED", "NOT_SET", "Partition_Limit", "INFINITE", "N/A", "(null)", INVALID, ""})
ABSENT_INSTANTS = frozenset({"Unknown", "N/A", "NONE", "None", "(null)", "0", ""})

_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?", re.ASCII)


def parse_duration(text: str) -> timedelta | None:
    """Parse `MM:SS`, `HH:MM:SS` or `D-HH:MM:SS`; None for Slurm's words for no known limit.

    Minutes may exceed 59 if no hours are printed.

    Raises:
        ValueError: the text is anything else.

    """
    if text in ABSENT_DURATIONS:
        return None
    match = _DURATION.fullmatch(text)
    if match is None or (match[1] is not None and match[2] is None):
        raise ValueError(f"not a duration that Slurm prints: {text!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    try:
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise ValueError(f"not a duration that Slurm prints: {text!r}") from None


def format_duration(value: timedelta | None) -> str:
    """Format a duration in whole seconds, as squeue prints it."""
    if value is None:
        return "UNLIMITED"
    total = value.days * 86400 + value.seconds
    days, hours, minutes, seconds = total // 86400, total // 3600 % 24, total // 60 % 60, total % 60
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def parse_instant(text: str) -> datetime | None:
    """Parse seconds since the epoch, or Slurm's ISO form; None if Slurm has no time.

    The ISO form is read as UTC, because the programs run with TZ=UTC.

    Raises:
        ValueError: the text is anything else.

    """
    if text in ABSENT_INSTANTS:
        return None
    if text.isdigit():
        return from_epoch(int(text))
    instant = datetime.fromisoformat(text)
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)


def from_epoch(seconds: int | None) -> datetime | None:
    """Return the instant; None for 0, Slurm's NO_VAL, and numbers beyond the calendar."""
    if not seconds or seconds < 0 or seconds >= 0xFFFFFFFE:
        return None
    return datetime.fromtimestamp(seconds, UTC)
