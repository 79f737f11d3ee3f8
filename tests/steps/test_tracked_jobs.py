"""Scans of many owners find the jobs of their runs, and each may note something while another one forgets."""

from types import SimpleNamespace

from ckptd.core.model import JobKey, RunKey
from ckptd.core.queue import TrackedJob
from ckptd.steps.declared_locations import LocationSlice
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.tracked_jobs import list_tracked
from support.queue_facts import CLUSTER, RUN, at, make_job

OTHER = RunKey(CLUSTER, 1000, "/data/alice/other")


class Published:
    """The state as far as it has one queue."""

    def __init__(self, queue):
        self.queue = queue
        self._slices = {}

    def latest(self, kind):
        assert kind is PolledQueue
        return self.queue

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


def test_what_another_owners_scan_notes_meanwhile_disturbs_nobody():
    memory = LocationSlice(asked_at={RUN: at(0)})

    class Watchlist:
        def __contains__(self, run):
            memory.asked_at[OTHER] = at(1)
            return True

    state = SimpleNamespace(latest=lambda _: PolledQueue(), watchlist=Watchlist())
    memory.forget_others(state)
    assert memory.asked_at[RUN] == at(0)
