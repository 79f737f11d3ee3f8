"""Reports on lost work for pages, kept for a minute because a million attempts take a second to add up."""

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from ckptd.core.runs.lost_work_totals import GroupedBy, LossTotal
from ckptd.present import lost_work_report

if TYPE_CHECKING:
    from ckptd.present.responses.lost_work_documents import LostWorkReportDocument

KEPT_SECONDS = 60.0


class Period(StrEnum):
    """How far back a report goes. A few values, so that nobody makes the database add up at will."""

    DAY = "1d"
    WEEK = "7d"
    MONTH = "30d"
    YEAR = "365d"

    @property
    def duration(self) -> timedelta:
        return timedelta(days=int(self.value.removesuffix("d")))


class SumLostWork(Protocol):
    """Sums the lost work of attempts that ended since `since`, by the group's name; None: of all clusters or users."""

    def __call__(
        self, group: GroupedBy, since: datetime, *, cluster: str | None = None, user: str | None = None
    ) -> Mapping[str, LossTotal]: ...


class LostWorkQueries(Protocol):
    """The record of which reports are made."""

    @property
    def sum_lost_work(self) -> SumLostWork: ...


_ReportKey = tuple[GroupedBy, Period, str | None, str | None]


class LostWorkReports:
    """Makes reports one at a time and keeps each for a minute."""

    def __init__(self, record: LostWorkQueries) -> None:
        self._record = record
        self._kept: dict[_ReportKey, tuple[LostWorkReportDocument, float]] = {}
        self._summing = threading.Lock()

    def read(
        self, by: GroupedBy, period: Period, user: str | None, cluster: str | None = None
    ) -> "LostWorkReportDocument":
        """Return the report on the attempts that ended in a period; of one user or cluster, or of all where it is None.

        Raises:
            CkptdError: the database does not answer.

        """
        with self._summing:
            now = time.monotonic()
            self._kept = {key: each for key, each in self._kept.items() if now - each[1] < KEPT_SECONDS}
            key = (by, period, user, cluster)
            if key not in self._kept:
                self._kept[key] = self._report(*key), now
            return self._kept[key][0]

    def _report(self, by: GroupedBy, period: Period, user: str | None, cluster: str | None) -> "LostWorkReportDocument":
        now = datetime.now(UTC)
        since = now - period.duration
        return lost_work_report.read_report(
            lambda group: self._record.sum_lost_work(group, since, cluster=cluster, user=user), by, since, now
        )
