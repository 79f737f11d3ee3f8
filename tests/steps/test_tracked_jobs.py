"""Scans of many owners find the jobs of their runs, and each may note something while another one forgets."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ckptd.core.model import JobKey, RunKey
from ckptd.core.queue import TrackedJob
from ckptd.steps import tracked_jobs
from ckptd.steps.declared_locations import LocationSlice
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.tracked_jobs import list_owned, list_tracked, move_jobs
from support.queue_facts import CLUSTER, RUN, at, make_job

OTHER = RunKey(CLUSTER, 1000, "/data/alice/other")


class Published:
    """The state as far as it has one queue."""

    def __init__(self, queue):
        self.queue = queue
        self.record_lock = contextlib.nullcontext()
        self._slices = {}

    def latest(self, kind):
        assert kind is PolledQueue
        return self.queue

    def publish(self, queue):
        self.queue = queue

    def own(self, kind, make):
        return self._slices.setdefault(kind, make())


def track(*runs):
    jobs = {
        number: TrackedJob(
            key=JobKey(CLUSTER, number, at(0)), job=make_job(number), run=run, attempt=None, last_seen_at=at(0)
        )
        for number, run in enumerate(runs, 1)
    }
    return PolledQueue(tracked=jobs)


def test_the_jobs_of_a_run_are_those_of_the_latest_queue():
    state = Published(track(RUN, OTHER, RUN))
    assert [each.job.job_id for each in list_tracked(state, RUN)] == [1, 3]
    state.queue = state.queue.with_runs({state.queue.tracked[3].key: OTHER})
    assert [each.job.job_id for each in list_tracked(state, OTHER)] == [2, 3]
    assert not list_tracked(state, RUN._replace(uid=7))


@pytest.mark.parametrize("is_sorted_before", [True, False])
def test_a_job_whose_directory_is_found_moves_to_its_run(is_sorted_before):
    state = Published(track(RUN, OTHER, RUN))
    if is_sorted_before:
        list_tracked(state, RUN)
    move_jobs(state, {state.queue.tracked[3].key: OTHER, JobKey(CLUSTER, 4, at(0)): RUN._replace(uid=7)})
    assert state.queue.tracked[3].run == OTHER
    assert [each.job.job_id for each in list_tracked(state, RUN)] == [1]
    assert [each.job.job_id for each in list_tracked(state, OTHER)] == [2, 3]
    assert list_owned(state, RUN.uid) == tuple(state.queue.tracked.values())
    assert not list_owned(state, 7)


def test_directories_that_are_found_do_not_sort_the_jobs_of_other_owners(monkeypatch):
    queue, owners = track(*[RUN] * 40), [1000, 1001, 1002, 1003]
    tracked = {
        number: replace(
            known,
            job=replace(known.job, uid=owners[number % 4]),
            run=RunKey(CLUSTER, owners[number % 4], f"job:{number}"),
        )
        for number, known in queue.tracked.items()
    }
    state, sorted_jobs = Published(PolledQueue(tracked=tracked)), []
    sort = tracked_jobs._sort_owned

    def count(jobs):
        found = tuple(jobs)
        sorted_jobs.extend(found)
        return sort(found)

    monkeypatch.setattr(tracked_jobs, "_sort_owned", count)
    for owner in owners:
        assert len(list_owned(state, owner)) == 10
        move_jobs(state, {known.key: RUN._replace(uid=owner) for known in list_owned(state, owner)})
        assert len(list_tracked(state, RUN._replace(uid=owner))) == 10
    assert len(sorted_jobs) == 40 + 40


def test_what_another_owners_scan_notes_meanwhile_disturbs_nobody():
    memory = LocationSlice(asked_at={RUN: at(0)})

    class Watchlist:
        def __contains__(self, run):
            memory.asked_at[OTHER] = at(1)
            return True

    state = SimpleNamespace(latest=lambda _: PolledQueue(), watchlist=Watchlist())
    memory.forget_others(state)
    assert memory.asked_at[RUN] == at(0)
