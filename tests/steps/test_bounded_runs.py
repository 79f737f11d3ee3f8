"""Runs that are due are found whatever the clock does, although most questions look at none of the runs."""

from datetime import timedelta
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.discovery import scan_schedule
from ckptd.steps.watchlist import Watchlist
from core.histories import RUN, START
from steps.test_watchlist import EMPTY, HUNG

RUNS = [RUN._replace(directory=f"/scratch/run{number}") for number in range(4)]
INTERVALS = [timedelta(seconds=seconds) for seconds in (10, 300, 7200)]
CHANGES = st.one_of(
    st.tuples(st.just("pass"), st.integers(-4000, 4000)),
    st.tuples(st.just("scan"), st.integers(0, 3), st.sampled_from([EMPTY, HUNG]), st.integers(0, 20)),
    st.tuples(st.just("hasten"), st.integers(0, 3)),
    st.tuples(st.just("keep"), st.integers(0, 4)),
    st.tuples(st.just("interval"), st.sampled_from(INTERVALS)),
)


def change(watchlist, now, kind, *values):
    """Make one change; return the time after it."""
    if kind == "pass":
        return now + timedelta(seconds=values[0])
    if kind == "scan":
        number, found, since = values
        watchlist.record_scan(RUNS[number], found, now - timedelta(seconds=since))
    elif kind == "hasten":
        watchlist.hasten([RUNS[values[0]]], now)
    elif kind == "keep":
        watchlist.keep(RUNS[: values[0]], now)
    else:
        watchlist.set_interval(values[0], now)
    return now


@given(st.lists(CHANGES, max_size=30))
def test_what_is_due_is_found_after_any_changes_of_runs_interval_and_clock(changes):
    watchlist, now = Watchlist(INTERVALS[1]), START
    watchlist.keep(RUNS, now)
    for each in changes:
        now = change(watchlist, now, *each)
        due = scan_schedule.list_due(watchlist.all, watchlist._interval, now)
        found = watchlist.due(now, 10).get(RUN.uid, [])
        assert sorted(found, key=lambda run: run.key) == sorted(due, key=lambda run: run.key)


def test_while_none_is_due_no_run_is_looked_at():
    watchlist = Watchlist(INTERVALS[1])
    watchlist.keep(RUNS, START)
    for run in RUNS:
        watchlist.record_scan(run, EMPTY, START)
    assert watchlist.due(START + timedelta(seconds=1), 10) == {}
    with mock.patch.object(scan_schedule, "list_due", side_effect=AssertionError):
        assert watchlist.due(START + timedelta(seconds=2), 10) == {}
