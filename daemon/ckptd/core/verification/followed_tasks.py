"""How far the tasks of an array job have come, from their results so far and from the queue."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.model import ENDED_STATES, JobState
from ckptd.core.verification.ticket import VerificationTicket

# after a task has ended, until its result is missed: a network file system may show a new file later
RESULT_DELAY = timedelta(minutes=1)


class FollowedTasks(NamedTuple):
    """What the queue and the results say of a ticket's tasks."""

    finished: frozenset[int]  # tasks with a result
    has_begun: bool  # a task runs, or has a result
    lost: tuple[int, ...]  # tasks that ended without a result; empty while another task may still give one
    is_silent: bool  # no task without a result is in the queue
    is_cancelled: bool  # somebody cancelled a lost task, so that it must not be submitted again


def judge_tasks(
    ticket: VerificationTicket, results: Collection[int], states: Mapping[int, JobState], now: datetime
) -> FollowedTasks:
    """Judge the tasks of a ticket; `states` are those of the tasks that the queue still shows."""
    numbers = range(len(ticket.tasks))
    finished = frozenset(results) & frozenset(numbers)
    missing = tuple(number for number in numbers if number not in finished)
    found = [states[number] for number in missing if number in states]
    is_silent = bool(missing) and all(state in ENDED_STATES for state in found)
    is_overdue = ticket.silent_since is not None and now - ticket.silent_since >= RESULT_DELAY
    lost = missing if is_silent and is_overdue else ()
    return FollowedTasks(
        finished=finished,
        has_begun=bool(finished) or any(state is not JobState.PENDING for state in found),
        lost=lost,
        is_silent=is_silent,
        is_cancelled=any(states.get(number) is JobState.CANCELLED for number in lost),
    )
