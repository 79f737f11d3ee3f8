"""Once a day: deletes expired records, and adds up those that still count.

The deleted checkpoints of old runs, the lost work of whole days, and the interruptions of half a year.
"""

from datetime import UTC, datetime, timedelta

from ckptd.core.model.records import ExpiryCounts
from ckptd.core.runs.observations import TALLY_AGE
from ckptd.present.formatting import format_count, format_duration
from ckptd.steps.parts import Parts
from ckptd.steps.results import StepResult, info
from ckptd.steps.run_facts import EndTallies
from ckptd.steps.state import State

UNSETTLED = timedelta(days=2)  # the last days, whose lost work still changes, are summed up from its rows


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Delete what is older than `store.keep`, and sum up what is older than `store.keep_checkpoints`."""
    sum_up_checkpoints(parts, state, now)
    expired = expire(parts, state, parts.keep, now)
    runs = format_count(expired.run_count, "run")
    lines = (info(f"deleted the records of {runs} that ended over {format_duration(parts.keep)} ago (store.keep)"),)
    return StepResult(expired != ExpiryCounts(), lines if expired.run_count else ())


def expire(parts: Parts, state: State, keep: timedelta, now: datetime) -> ExpiryCounts:
    """Delete the records of runs that ended longer ago than `keep`, in small transactions; return the counts."""
    total = ExpiryCounts()
    while True:
        with state.recording():
            done = parts.store.expiry.delete_old(parts.cluster, now - keep, total.last_run)
        total += done
        if done.is_all:
            break
    _sum_up_days(parts, state, now)
    return total


def sum_up_checkpoints(parts: Parts, state: State, now: datetime) -> int:
    """Sum up the deleted checkpoints of runs that ended long ago, in small transactions; return their number."""
    count, last = 0, None
    while True:
        with state.recording():
            done = parts.store.summed_checkpoints.sum_up(parts.cluster, now - parts.keep_checkpoints, last)
        count, last = count + done.row_count, done.last_run
        if last is None:
            return count


def _sum_up_days(parts: Parts, state: State, now: datetime) -> None:
    for day in parts.store.summed_days.list_missing(parts.cluster, now.astimezone(UTC).date() - UNSETTLED):
        with state.recording():
            parts.store.summed_days.sum_up(parts.cluster, day)
    with state.record_lock:
        ends = parts.store.restart_state.read_ends(parts.cluster, now - TALLY_AGE)
        state.publish(EndTallies().with_tallies(ends))
