"""What searches and batch scripts told of runs is kept as long as those are watched, at a cost for each of them."""

from dataclasses import replace

import pytest

from ckptd.steps import scan
from ckptd.steps.scan import ScanSlice
from ckptd.steps.snapshots import ScanProgress
from ckptd.steps.watchlist import Watchlist

SCRIPT = "#!/bin/bash\npython train.py --checkpoint-dir not-there-yet\n"


@pytest.fixture
def checks(monkeypatch):
    """List the runs of which it is asked whether they are watched."""
    asked = []
    is_watched = Watchlist.__contains__

    def note(watchlist, key):
        asked.append(key)
        return is_watched(watchlist, key)

    monkeypatch.setattr(Watchlist, "__contains__", note)
    monkeypatch.setattr(scan, "FEW_KEPT", 2)
    monkeypatch.setattr(scan, "MAX_DUE", 4)  # jobs of one owner in one task
    return asked


def run_jobs(fleet, first, count, begun):
    """Let jobs run without a directory until each has been searched for; return them all."""
    fleet.source.read_batch_script = lambda job, *, is_urgent=False: SCRIPT
    fleet.parts = replace(fleet.parts, reads_batch_scripts=True)
    jobs = [fleet.job(first + number) for number in range(count)]
    for minute in range(20):
        fleet.run(begun + minute * 0.1, *jobs)
        if not fleet.state.watchlist.list_unsearched():
            break
    assert not fleet.state.watchlist.list_unsearched()
    return jobs


def test_each_search_does_not_go_through_those_of_all_other_jobs(fleet, checks):
    run_jobs(fleet, 1, 48, 1)
    assert len(checks) < 3 * 48


def test_what_is_known_of_jobs_that_ended_is_forgotten(fleet, checks):
    del checks
    run_jobs(fleet, 1, 24, 1)
    named = fleet.state.latest(ScanProgress).named_by_script
    assert len(named) == 24
    for turn in range(3):
        run_jobs(fleet, 100 * (turn + 1), 8, 10 * (turn + 1))
    memory = fleet.state.own(ScanSlice, ScanSlice)
    assert len(memory.script_places) <= 24
    assert fleet.state.latest(ScanProgress).named_by_script <= memory.script_places.keys()
