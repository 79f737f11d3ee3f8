"""A process that writes to a record until it is killed."""

from ckptd.core import queue
from ckptd.store.store import Store
from support.queue_facts import look, make_job


def write_until_killed(url, ready):
    """Write polls for ever: each either adds a job with its attempt and run, or nothing."""
    opened = Store.open(url)
    tracked = {}
    for number in range(1, 1_000_000):
        shown = look(number / 60, *(make_job(each) for each in range(1, number + 1)))
        changes = queue.compare(tracked, shown)
        opened.jobs.record(changes)
        tracked = queue.apply(tracked, changes)
        if number == 3:
            ready.set()
