"""One cycle: observe, record, decide, record the decision, act, publish.

The steps that ask Slurm or look at directories take no lock and change nothing; those that record hold the state's
lock for as long as one short transaction. What could not be looked at is Unknown and changes nothing either.
"""

from datetime import datetime

from ckptd.core.fleet.snapshot import Report
from ckptd.steps.backfill import catch_up
from ckptd.steps.decide import decide
from ckptd.steps.expire import expire
from ckptd.steps.parts import Parts
from ckptd.steps.plan_notices import repeat_notices
from ckptd.steps.poll import list_finished, observe_queue, poll, poll_unrecorded, record_queue
from ckptd.steps.publish import report
from ckptd.steps.scan import look, look_again, search_new
from ckptd.steps.state import State, begin

__all__ = [
    "Parts",
    "State",
    "begin",
    "catch_up",
    "decide",
    "expire",
    "list_finished",
    "look",
    "look_again",
    "observe_queue",
    "poll",
    "poll_unrecorded",
    "record_queue",
    "repeat_notices",
    "report",
    "run_cycle",
    "search_new",
]


def run_cycle(parts: Parts, state: State, now: datetime) -> Report:
    """Do everything once."""
    poll(parts, state, now)
    catch_up(parts, state, now)
    for _ in range(2):  # a directory that was found is scanned in the same cycle
        look(parts, state, now)
    decide(parts, state, now)
    return report(parts, state, now)
