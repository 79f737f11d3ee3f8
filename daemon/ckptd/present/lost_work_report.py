"""Rows of reports on lost work, and how their bounds are written."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ckptd.core.runs.lost_work_totals import GroupedBy, LossTotal
from ckptd.present.formatting import format_duration

if TYPE_CHECKING:  # `ckptd report` starts without pydantic
    from ckptd.present.responses.lost_work_documents import (
        BoundedWorkDocument,
        LostWorkReportDocument,
        LostWorkSumDocument,
    )

UNNAMED = {GroupedBy.RULE: "no flag"}
COLUMNS = (
    "attempts",
    "unsaved work",
    "unsaved node-hours",
    "unsaved GPU-hours",
    "unsaved unknown",
    "redone work",
    "redone node-hours",
    "redone GPU-hours",
    "redone unknown",
)


def read_report(
    sum_by: Callable[[GroupedBy], Mapping[str, LossTotal]], by: GroupedBy, since: datetime, now: datetime
) -> "LostWorkReportDocument":
    """Return the document of a report; `sum_by` reads the sums by the name of each group."""
    sums = sum_by(by)
    # by rule, an attempt may be in several rows, and counts once in the total
    once = sum_by(GroupedBy.CAUSE) if by is GroupedBy.RULE else sums
    return report(sums, sum(once.values(), LossTotal()), by, since, now)


def report(
    sums: Mapping[str, LossTotal], total: LossTotal, by: GroupedBy, since: datetime, now: datetime
) -> "LostWorkReportDocument":
    """Return the document of a report, the rows with the most node time first."""
    order = sorted(sums.items(), key=lambda item: (-item[1].node_seconds - item[1].redone_node_seconds, item[0]))
    rows = [_row(name, each) for name, each in order]
    return {"since": since, "taken_at": now, "by": by, "rows": rows, "total": _row("", total)}


def cells(row: "LostWorkSumDocument") -> tuple[str, ...]:
    """Return the values of COLUMNS."""
    unsaved, redone = row["unsaved"], row["redone"]
    return (
        f"{row['attempt_count']:,}",
        _tell(unsaved["low_seconds"], unsaved["high_seconds"]),
        _describe_hours(unsaved["low_node_seconds"], unsaved["high_node_seconds"]),
        _describe_hours(unsaved["low_gpu_seconds"], unsaved["high_gpu_seconds"]),
        f"{unsaved['unknown_count']:,}",
        _tell(redone["low_seconds"], redone["high_seconds"], redone["unknown_count"]),
        _describe_hours(redone["low_node_seconds"], redone["high_node_seconds"], redone["unknown_count"]),
        _describe_hours(redone["low_gpu_seconds"], redone["high_gpu_seconds"], redone["unknown_count"]),
        f"{redone['unknown_count']:,}",
    )


def name_row(row: "LostWorkSumDocument", by: GroupedBy) -> str:
    """Return the name of a row for people."""
    return row["name"] or UNNAMED.get(by, "-")


def _row(name: str, total: LossTotal) -> "LostWorkSumDocument":
    return {
        "name": name,
        "attempt_count": total.attempt_count,
        "unsaved": {
            "low_seconds": round(total.seconds),
            "high_seconds": round(total.high_seconds),
            "low_node_seconds": round(total.node_seconds),
            "high_node_seconds": round(total.high_node_seconds),
            "low_cpu_seconds": round(total.cpu_seconds),
            "high_cpu_seconds": round(total.high_cpu_seconds),
            "low_gpu_seconds": round(total.gpu_seconds),
            "high_gpu_seconds": round(total.high_gpu_seconds),
            "unknown_count": total.unknown_count,
        },
        "redone": _redone(total),
    }


def _redone(total: LossTotal) -> "BoundedWorkDocument":
    return {
        "low_seconds": round(total.redone_seconds),
        "high_seconds": round(total.redone_high_seconds),
        "low_node_seconds": round(total.redone_node_seconds),
        "high_node_seconds": round(total.redone_high_node_seconds),
        "low_cpu_seconds": round(total.redone_cpu_seconds),
        "high_cpu_seconds": round(total.redone_high_cpu_seconds),
        "low_gpu_seconds": round(total.redone_gpu_seconds),
        "high_gpu_seconds": round(total.redone_high_gpu_seconds),
        "unknown_count": total.redone_unknown_count,
    }


def _tell(low: int, high: int, unknown_count: int = 0) -> str:
    least, most = (format_duration(timedelta(seconds=each)) for each in (low, high))
    return _bound(least, most, is_open=bool(unknown_count), is_zero=not low)


def _describe_hours(low: int, high: int, unknown_count: int = 0) -> str:
    least, most = (f"{each / 3600:,.1f}" for each in (low, high))
    return _bound(least, most, is_open=bool(unknown_count), is_zero=not low)


def _bound(least: str, most: str, *, is_open: bool, is_zero: bool) -> str:
    """Write a value or its bounds; open: there are attempts that the upper bound leaves out."""
    if is_open:
        return "unknown" if is_zero else f"at least {least}"
    if least == most:
        return most
    return f"up to {most}" if is_zero else f"{least} to {most}"
