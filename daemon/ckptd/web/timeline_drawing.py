"""Draws a run's timeline: instants become percentages of the width, so that it fits any screen."""

from dataclasses import dataclass
from datetime import datetime

from ckptd.core.model import EndCause
from ckptd.present.formatting import number_job
from ckptd.present.labels import fate_of
from ckptd.present.timeline import Timeline

LEAST_WIDTH = 0.3  # per cent: nothing is too short to be seen
TICKS = 3
_QUIET_ENDS = {EndCause.COMPLETED, EndCause.REQUEUE, EndCause.PREEMPTION, EndCause.CANCEL}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A span, in percent of the width."""

    left: float
    width: float
    kind: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    left: float
    kind: str
    text: str
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    bars: list[Bar]
    losses: list[Bar]
    restarts: list[Point]
    marks: list[Point]
    expected: list[Point]
    limits: list[Point]
    ticks: list[Point]
    now: Point


def draw(line: Timeline) -> Drawing:
    """Return the drawing of a timeline."""
    names = name_jobs(line)
    return Drawing(
        bars=[
            _bar(line, attempt.started_at, attempt.ended_at or line.now, *_describe(attempt.cause, attempt.ended_at))
            for attempt in line.attempts
        ],
        losses=[
            _bar(
                line,
                loss.begins_at,
                loss.ends_at,
                "foretold" if loss.is_forecast else "lost",
                f"work of job {names.get(loss.job_id, loss.job_id)} "
                + ("that will be lost if it runs until its time limit" if loss.is_forecast else "that was lost"),
            )
            for loss in line.losses
        ],
        restarts=[
            _point(line, attempt.started_at, "restart", f"restart: {attempt.kind or 'requeue'}")
            for attempt in line.attempts
            if attempt.kind or attempt.restart_count
        ],
        marks=[
            _point(line, mark.at, mark.fate.value, f"{fate_of(mark.fate.value)}: {mark.path}") for mark in line.marks
        ],
        expected=[_point(line, at, "expected", "expected checkpoint") for at in line.expected],
        limits=[
            _point(
                line, min(limit.at, line.ends_at), "limit", f"time limit of job {names.get(limit.job_id, limit.job_id)}"
            )
            for limit in line.limits
        ],
        ticks=[
            _point(line, line.begins_at + (line.ends_at - line.begins_at) * place / TICKS, anchor, "")
            for place, anchor in enumerate(("start", "middle", "middle", "end"))
        ],
        now=_point(line, line.now, "now", "now"),
    )


def name_jobs(line: Timeline) -> dict[int, str]:
    """Return the jobs of a timeline as Slurm's commands name them, by their ids."""
    return {
        each.job.job_id: number_job(each.job.job_id, each.array_job_id, each.array_task_id) for each in line.attempts
    }


def _describe(cause: EndCause | None, ended_at: datetime | None) -> tuple[str, str]:
    if ended_at is None:
        return "running", "running"
    kind = "ended" if cause in _QUIET_ENDS else "failed"
    return kind, f"ended: {cause.value if cause else 'unknown'}"


def _share(line: Timeline, at: datetime) -> float:
    share = (at - line.begins_at) / (line.ends_at - line.begins_at)
    return round(100 * min(max(share, 0.0), 1.0), 2)


def _bar(line: Timeline, begins_at: datetime, ends_at: datetime, kind: str, text: str) -> Bar:
    left = min(_share(line, begins_at), 100 - LEAST_WIDTH)
    return Bar(left=left, width=max(round(_share(line, ends_at) - left, 2), LEAST_WIDTH), kind=kind, text=text)


def _point(line: Timeline, at: datetime, kind: str, text: str) -> Point:
    return Point(left=_share(line, at), kind=kind, text=text, at=at)
