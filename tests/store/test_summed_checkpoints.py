"""Deleted checkpoints of runs that ended long ago become sums, and nothing else changes."""

from dataclasses import replace

import pytest

from ckptd.core.model import CheckpointState, SummedCheckpoints
from ckptd.store import expiry, summed_checkpoints
from store.test_expiry import act, finish_run
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job
from support.recorded import locate, poll, scan

LATER = 100  # minutes; all that is deleted is deleted by then


def save_many(store, count=12, kept=2, run=RUN, job_id=1, began=0):
    """Record a run that deleted all of its checkpoints but the last ones, one after the other."""
    finish_run(store, job_id, run, began)
    for step in range(1, count + 1):
        there = range(max(1, step - kept + 1), step + 1)
        found = (make_checkpoint(f"step-{each}.pt", began + 20 + each, step=each) for each in there)
        scan(store, began + 20 + step, *found, run=run)


def sum_up(store, minutes=LATER):
    return store.summed_checkpoints.sum_up(CLUSTER, at(minutes)).row_count


def read(store, run=RUN):
    (history,) = store.histories.read(CLUSTER, [run])
    return history


def names_of(store):
    return [each.checkpoint.path.name for each in read(store).checkpoints]


@pytest.mark.filled_by(record=save_many)
def test_what_a_restart_may_be_compared_with_stays_and_the_rest_is_summed_up(store):
    before = read(store)
    assert len(before.checkpoints) == 12
    assert sum_up(store) == 10
    after = read(store)
    assert names_of(store) == ["step-11.pt", "step-12.pt"]
    gone = before.checkpoints[:10]
    assert after.summed == SummedCheckpoints(
        10, sum(each.checkpoint.size_bytes for each in gone), gone[0].first_seen_at, gone[-1].first_seen_at
    )
    assert replace(after, checkpoints=before.checkpoints, summed=None, scan=before.scan, rhythm=before.rhythm) == before
    assert sum_up(store) == 0


@pytest.mark.filled_by(record=save_many)
def test_sums_of_a_run_that_went_on_are_added(store):
    sum_up(store)
    poll(store, 200, make_job(2, started_at=at(199), submitted_at=at(198)))
    locate(store, 2, RUN, 200)
    scan(store, 201, *(make_checkpoint(f"new-{each}.pt", 200, step=100 + each) for each in range(5)))
    assert sum_up(store, 300) == 0, "it runs"
    poll(store, 210, make_job(2, STATES.TIMEOUT, started_at=at(199), submitted_at=at(198), ends_at=at(209)))
    poll(store, 220)
    scan(store, 221)
    assert sum_up(store, 300) > 0
    total = read(store).summed
    assert total.checkpoint_count + len(read(store).checkpoints) == 17
    assert total.first_seen_at < total.last_seen_at


@pytest.mark.filled_by(record=finish_run)
def test_the_furthest_one_and_the_last_of_each_attempt_stay(store):
    steps = [50, 3, 4, 5, 6, 7]
    for number, step in enumerate(steps):
        scan(store, 21 + number, make_checkpoint(f"step-{step}.pt", 20 + number, step=step))
    scan(store, 40)
    assert sum_up(store) == 3
    assert names_of(store) == ["step-50.pt", "step-6.pt", "step-7.pt"]


@pytest.mark.parametrize("case", ["present", "young", "trash", "running"])
@pytest.mark.filled_by(record=save_many)
def test_what_is_still_needed_is_not_summed_up(store, case):
    if case == "trash":
        act(store, "prune", "moved", 60)
    if case == "running":
        poll(store, 70, make_job(2, started_at=at(69), submitted_at=at(68)))
        locate(store, 2, RUN, 70)
    rows = names_of(store)
    assert sum_up(store, 21 if case == "young" else LATER) == (10 if case == "present" else 0)
    assert (names_of(store) == rows) == (case != "present")


@pytest.mark.filled_by(record=save_many)
def test_many_rows_are_summed_up_in_several_transactions(store, monkeypatch):
    monkeypatch.setattr(summed_checkpoints, "ROW_COUNT", 1)
    monkeypatch.setattr(summed_checkpoints, "RUN_COUNT", 2)
    monkeypatch.setattr(expiry, "RUN_COUNT", 2)
    save_many(store, run=RUN._replace(directory="/data/alice/later"), job_id=2, began=40)
    first = store.summed_checkpoints.sum_up(CLUSTER, at(LATER))
    second = store.summed_checkpoints.sum_up(CLUSTER, at(LATER), first.last_run)
    assert (first.row_count, second.row_count) == (10, 10)
    assert first.last_run is not None
    assert second.last_run is None


@pytest.mark.filled_by(record=finish_run)
def test_an_unfinished_save_that_vanished_is_summed_up_like_others(store):
    for number in range(4):
        made = make_checkpoint(f"tmp-{number}", 20, state=CheckpointState.WRITING)
        scan(store, 21 + number, made)
    scan(store, 30)
    assert sum_up(store) == 2
