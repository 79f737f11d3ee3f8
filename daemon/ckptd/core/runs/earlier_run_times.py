"""Measure how long a run had run before each of its attempts.

Thousands of tasks of an array may save in one directory and be requeued together. They are asked about one after the
other, so their attempts are sorted once, and tasks that ran at the same times are counted together.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from ckptd.core.model import Attempt, JobKey, RunRecord, Suspension
from ckptd.core.runs import suspension
from ckptd.core.runs.history import is_restart

_Spans = tuple[tuple[datetime, datetime | None, tuple[Suspension, ...]], ...]  # when the attempts of one job ran


@dataclass(slots=True)
class _Alike:
    """Jobs whose attempts ran at the same times, with the attempts of one of them."""

    attempts: list[Attempt]
    first_started_at: datetime
    job_count: int = 0


class EarlierRunTimes:
    """The run time before the attempts of one history, which are sorted for the first question."""

    def __init__(self, history: RunRecord) -> None:
        self._history = history
        self._of_job: dict[JobKey, list[Attempt]] = defaultdict(list)
        self._spans: dict[JobKey, _Spans] = {}
        self._alike: dict[_Spans, _Alike] = {}
        self._starts: Counter[datetime] = Counter()
        self._first_started_at: datetime | None = None
        self._oldest_at: datetime | None = None
        self._measured: dict[tuple[_Spans, datetime], timedelta] = {}

    def before(self, attempt: Attempt) -> timedelta | None:
        """Return how long the run had run before one of its attempts; None where not all of that was seen.

        So it is where executions of the same job are missing, and where files are older than the first attempt on
        record. Jobs that ran beside this one, such as other tasks of its array, do not count: their work is not this
        one's.
        """
        if not self._starts:
            self._sort()
        own = [each for each in self._of_job[attempt.job] if each.started_at <= attempt.started_at]
        counts = {each.restart_count for each in own if each.started_at < attempt.started_at}
        first_at = self._first_started_at
        is_first = first_at is None or first_at >= attempt.started_at
        # tasks of an array start at one instant: of them, one is the first of the run, and before none anything ran
        is_restart_unseen = is_restart(attempt) and is_first and self._starts[attempt.started_at] < 2
        if is_restart_unseen or len(counts) < attempt.restart_count:
            return None
        began_at = attempt.started_at if is_first or first_at is None else first_at
        if self._oldest_at is not None and self._oldest_at < began_at:
            return None
        key = self._spans[attempt.job], attempt.started_at
        if key not in self._measured:
            self._measured[key] = self._sum_up(attempt, own)
        return self._measured[key]

    def _sort(self) -> None:
        for each in self._history.attempts:
            self._of_job[each.job].append(each)
        for job, attempts in self._of_job.items():
            self._spans[job] = spans = _list_spans(attempts)
            first_at = min(each.started_at for each in attempts)
            self._alike.setdefault(spans, _Alike(attempts, first_at)).job_count += 1
        self._starts.update(each.started_at for each in self._history.attempts)
        self._first_started_at = min(self._starts, default=None)
        self._oldest_at = min((each.checkpoint.modified_at for each in self._history.checkpoints), default=None)

    def _sum_up(self, attempt: Attempt, own: list[Attempt]) -> timedelta:
        """Return the run time of the job's own attempts before this one, and of jobs that did not run beside it."""
        until = attempt.started_at
        own_alike = self._alike[self._spans[attempt.job]]
        total = sum((_ran_until(each, until) for each in own if each.started_at < until), timedelta(0))
        for alike in self._alike.values():
            job_count = alike.job_count - (alike is own_alike)
            if not job_count or alike.first_started_at >= until:
                continue
            if not any(_ran_together(other, each) for other in alike.attempts for each in own):
                earlier = (_ran_until(each, until) for each in alike.attempts if each.started_at < until)
                total += job_count * sum(earlier, timedelta(0))
        return total


def _list_spans(attempts: list[Attempt]) -> _Spans:
    return tuple((each.started_at, each.ended_at, tuple(each.suspensions)) for each in attempts)


def _ran_together(one: Attempt, other: Attempt) -> bool:
    """Whether two attempts ran at once; for most of the shorter one, because an end may be known late."""
    first, second = (one, other) if one.started_at <= other.started_at else (other, one)
    if first.ended_at is None:
        return True
    took, end = first.ended_at - first.started_at, first.ended_at
    if second.ended_at is not None:
        took, end = min(took, second.ended_at - second.started_at), min(end, second.ended_at)
    together = end - second.started_at
    return together > timedelta(0) and together >= took / 2


def _ran_until(attempt: Attempt, instant: datetime) -> timedelta:
    until = min(attempt.ended_at or instant, instant)
    return until - attempt.started_at - suspension.within(attempt.suspensions, attempt.started_at, until)
