"""Instants as the drivers of both databases store them."""

import functools
from datetime import UTC, date, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@functools.lru_cache(maxsize=4096)  # rows that were written together have the same ones
def instant(value: int | datetime | None) -> datetime | None:
    """Return an instant from a driver's value: SQLite has microseconds since 1970."""
    if value is None:
        return None
    return _EPOCH + timedelta(microseconds=value) if isinstance(value, int) else value.astimezone(UTC)


def encode_microseconds(value: datetime) -> int:
    """Return microseconds since 1970."""
    return (value - _EPOCH) // _MICROSECOND


def encode_sqlite(value: object) -> object:
    """Return a value as SQLite stores it: days as text, and instants as microseconds since 1970."""
    if isinstance(value, datetime):
        return encode_microseconds(value)
    return value.isoformat() if isinstance(value, date) else value
