"""Instants that count how often they are compared: tests measure no time."""

from datetime import datetime


class CountedInstant(datetime):
    comparison_count = 0

    def __gt__(self, other: datetime) -> bool:
        CountedInstant.comparison_count += 1
        return super().__gt__(other)

    def __lt__(self, other: datetime) -> bool:
        CountedInstant.comparison_count += 1
        return super().__lt__(other)

    @classmethod
    def of(cls, at: datetime) -> "CountedInstant":
        return cls(*at.timetuple()[:6], at.microsecond, tzinfo=at.tzinfo)
