"""How long to leave Slurm alone after a poll that it answered slowly or refused."""

from datetime import timedelta

SOON = timedelta(seconds=2)  # an answer within this time is never slow, however short the poll interval
LONGEST = timedelta(minutes=5)  # unless the poll interval is longer
INTERVALS_AFTER_REFUSALS = 5  # at most, unless it took longer; a stopped controller may look like one that is slow
PAUSES_PER_POLL = 4  # a poll that takes a second is followed by at least four without one


def plan_wait(took: timedelta, refusal_count: int, interval: timedelta) -> timedelta:
    """Return the time from the begin of a poll to the next: the poll interval, or longer.

    Args:
        took: how long Slurm took to answer.
        refusal_count: how many polls in a row timed out or exceeded Slurm's rate limit.
        interval: the configured poll interval.

    """
    wait = interval if took <= SOON else max(interval, min(took * (1 + PAUSES_PER_POLL), LONGEST))
    if refusal_count:
        wait = max(wait, interval * min(1 << min(refusal_count, 10), INTERVALS_AFTER_REFUSALS))
    return wait
