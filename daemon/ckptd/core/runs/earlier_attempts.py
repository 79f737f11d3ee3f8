"""Finds the attempts whose work an attempt of the same run would continue, and how long they ran.

Hundreds of tasks of an array may share a directory, so that one pass over all attempts serves the questions about each.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import TypeVar

from ckptd.core.model import Attempt, AttemptProgress, JobKey, RunRecord
from ckptd.core.queue.executions import GUESSED_CAUSES
from ckptd.core.runs import attempt_progress, suspension
from ckptd.core.runs import history as facts
from ckptd.core.runs.ownership import MAX_POLL_GAP


class EarlierAttempts:
    """The attempts of a run by what they may continue.

    - Jobs that ran beside an attempt do not count: their work is not this one's.
    - Nor do other tasks of an array whose tasks run side by side, as with `--array=1-100%2`, even those that ended
      before the attempt started. Of another such array, the task with the same number counts.
    """

    def __init__(self, history: RunRecord) -> None:
        self._history = history

    @cached_property
    def _of_job(self) -> Mapping[JobKey, list[Attempt]]:
        return _group(self._history.attempts, lambda each: each.job)

    @cached_property
    def _of_task(self) -> Mapping[int | None, list[Attempt]]:
        """The attempts by task of arrays whose tasks run side by side; those of all other jobs under None."""
        side_by_side = _find_side_by_side(self._history.attempts)
        return _group(
            self._history.attempts, lambda each: each.array_task_id if each.array_job_id in side_by_side else None
        )

    @cached_property
    def _ended_of_task(self) -> Mapping[int | None, list[Attempt]]:
        """The same without jobs that run now: each of them runs beside every other one."""
        running = {each.job for each in self._history.attempts if each.ended_at is None}
        return {task: [each for each in found if each.job not in running] for task, found in self._of_task.items()}

    @cached_property
    def _start_counts(self) -> Counter[datetime]:
        return Counter(each.started_at for each in self._history.attempts)

    @cached_property
    def _first_started_at(self) -> datetime:
        return min(self._start_counts)

    @cached_property
    def _first_saved_at(self) -> datetime | None:
        return min((each.checkpoint.modified_at for each in self._history.checkpoints), default=None)

    @cached_property
    def progress(self) -> Mapping[tuple[JobKey, int], AttemptProgress]:
        """The progress of each attempt of the run, by its job and restart count."""
        attempts, reaches = self._history.attempts, attempt_progress.reaches_of(self._history)
        return {(each.job, each.restart_count): reach for each, reach in zip(attempts, reaches, strict=True)}

    def list_before(self, attempt: Attempt) -> list[Attempt]:
        """Return the attempts whose work an attempt would continue, oldest first."""
        own = [each for each in self._of_job[attempt.job] if each.started_at <= attempt.started_at]
        of_task = self._ended_of_task if attempt.ended_at is None else self._of_task
        numbers = {None, attempt.array_task_id}
        others = [each for number in numbers for each in of_task.get(number, ()) if each.job != attempt.job]
        beside = {other.job for other in others if any(_ran_together(other, each) for each in own)}
        before = [*own, *(each for each in others if each.job not in beside)]
        found = [each for each in before if each.started_at < attempt.started_at]
        return sorted(found, key=lambda each: (each.started_at, each.job, each.restart_count))

    def measure_before(self, attempt: Attempt) -> timedelta | None:
        """Return how long these attempts ran until the attempt started; None where not all of that was seen.

        So it is where executions of the same job are missing, and where files are older than the first attempt on
        record.
        """
        began_at = self._first_started_at
        counts = {each.restart_count for each in self._of_job[attempt.job] if each.started_at < attempt.started_at}
        # tasks of an array start at one instant: of them, one is the first of the run, and before none anything ran
        is_alone = self._start_counts[attempt.started_at] == 1
        is_restart_unseen = facts.is_restart(attempt) and attempt.started_at == began_at and is_alone
        if is_restart_unseen or len(counts) < attempt.restart_count:
            return None
        if self._first_saved_at is not None and self._first_saved_at < began_at:
            return None
        return sum((_ran_before(each, attempt) for each in self.list_before(attempt)), timedelta(0))


KeyT = TypeVar("KeyT")


def _group(attempts: Iterable[Attempt], key: Callable[[Attempt], KeyT]) -> dict[KeyT, list[Attempt]]:
    found: dict[KeyT, list[Attempt]] = defaultdict(list)
    for each in attempts:
        found[key(each)].append(each)
    return found


def _find_side_by_side(attempts: Iterable[Attempt]) -> set[int | None]:
    """Return the arrays whose tasks ran beside one another: none continues what another saved.

    In an array with `%1`, each task continues the one before. Few of its tasks seem to run beside that, because its end
    may be known late. So most of the tasks must have done so, or one for long beside one whose end Slurm states.
    """
    last: dict[int, Attempt] = {}  # of each array, the attempt that ended last of those that started so far
    follower_counts: Counter[int] = Counter()
    together_counts: Counter[int] = Counter()
    proven: set[int | None] = set()
    for each in sorted(attempts, key=lambda each: each.started_at):
        if each.array_job_id is None or each.array_task_id is None:
            continue
        known = last.setdefault(each.array_job_id, each)
        if known.job != each.job:
            follower_counts[each.array_job_id] += 1
            if _ran_together(known, each):
                together_counts[each.array_job_id] += 1
                if _is_proof(known, each):
                    proven.add(each.array_job_id)
        if known.ended_at is not None and (each.ended_at is None or each.ended_at > known.ended_at):
            last[each.array_job_id] = each
    return proven | {array for array, count in together_counts.items() if 2 * count >= follower_counts[array]}


def _is_proof(first: Attempt, second: Attempt) -> bool:
    """Whether an attempt that started beside another one surely ran on beside it, as its end is not a guess."""
    if first.ended_at is None or first.cause in GUESSED_CAUSES:
        return False
    return min(first.ended_at, second.ended_at or first.ended_at) - second.started_at >= MAX_POLL_GAP


def _ran_together(one: Attempt, other: Attempt) -> bool:
    """Whether two attempts ran at once; for most of the shorter one, because an end may be known late."""
    first, second = (one, other) if one.started_at <= other.started_at else (other, one)
    if first.ended_at is None:
        return True
    together = min(first.ended_at, second.ended_at or first.ended_at) - second.started_at
    took = min((each.ended_at - each.started_at for each in (first, second) if each.ended_at), default=together)
    return together > timedelta(0) and together >= took / 2


def _ran_before(earlier: Attempt, attempt: Attempt) -> timedelta:
    until = min(earlier.ended_at or attempt.started_at, attempt.started_at)
    return until - earlier.started_at - suspension.within(earlier.suspensions, earlier.started_at, until)
