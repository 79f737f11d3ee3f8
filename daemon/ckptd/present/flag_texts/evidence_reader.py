"""Read the evidence of a flag with the types and units that a text needs.

A missing value is an error, so that no text shows a gap or an invented number.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo

from ckptd.core.model import Evidence
from ckptd.errors import CkptdError
from ckptd.present.formatting import clean, format_duration, format_instant, format_progress, format_size

MAX_PATH = 4096  # Linux's limit: a shortened path could not be typed


class EvidenceError(CkptdError):
    """The evidence of a flag lacks a value that its text needs."""


class EvidenceReader:
    """Read values by name. Text written by users is returned escaped and on one line."""

    def __init__(self, evidence: Mapping[str, Evidence], zone: tzinfo | None = UTC) -> None:
        self._evidence = evidence
        self._zone = zone

    def number(self, name: str) -> float:
        value = self._read(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise EvidenceError(f"{name} is {value!r}, not a number")
        return value

    def count(self, name: str) -> int:
        return int(self.number(name))

    def progress(self, name: str) -> str:
        """Format a step or an epoch, of which only the latter has decimals: `step 1500000`, `epoch 3.5`."""
        return format_progress(self.number(name))

    def duration(self, name: str) -> str:
        """Format a number of seconds: `2 h 5 min`."""
        return format_duration(timedelta(seconds=self.number(name)))

    def size(self, name: str) -> str:
        """Format a number of bytes: `1.4 TiB`."""
        return format_size(self.number(name))

    def instant(self, name: str) -> str:
        """Format an instant in ISO 8601 as people read it, in the site's time zone."""
        try:
            return format_instant(datetime.fromisoformat(self.text(name)), self._zone)
        except ValueError as error:
            raise EvidenceError(f"{name} is no instant") from error

    def text(self, name: str) -> str:
        value = self._read(name)
        if not isinstance(value, str):
            raise EvidenceError(f"{name} is {value!r}, not text")
        return clean(value, MAX_PATH)

    def texts(self, name: str) -> list[str]:
        value = self._read(name)
        if not isinstance(value, list):
            raise EvidenceError(f"{name} is {value!r}, not a list")
        return [clean(each, MAX_PATH) for each in value]

    def is_true(self, name: str) -> bool:
        value = self._read(name)
        if not isinstance(value, bool):
            raise EvidenceError(f"{name} is {value!r}, not true or false")
        return value

    def has(self, name: str) -> bool:
        """Return whether a value is known; false if the rule recorded it as unknown or as an empty list."""
        return self._read(name) not in (None, [])

    def is_recorded(self, name: str) -> bool:
        """Return whether the rule recorded a value at all; false in flags of earlier versions that lack it."""
        return name in self._evidence

    def _read(self, name: str) -> Evidence:
        if name not in self._evidence:
            raise EvidenceError(f"{name} is missing")
        return self._evidence[name]
