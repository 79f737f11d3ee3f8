"""Each step owns its slice of what is carried from cycle to cycle, and what it publishes never changes."""

import copy
import dataclasses
import sys
import threading
from datetime import timedelta

from ckptd.core.model import RunKey
from ckptd.steps import poll, publish
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.run_facts import FreeSpaceSamples
from ckptd.steps.snapshots import QueuedMentions, RunHistories, ScanProgress
from ckptd.steps.state import State
from ckptd.steps.watchlist import Watchlist
from steps.daemon_lives import OTHERS, RUN
from support.queue_facts import CLUSTER, STATES, at, make_checkpoint, make_job, make_scan

THREADS = 4
TIMES = 200


def make_state():
    return State(watchlist=Watchlist(timedelta(minutes=1)))


def run_at_once(*works):
    """Run each of these many times, side by side, and pass on what goes wrong."""
    troubles = []
    start = threading.Barrier(len(works))

    def repeat(work):
        start.wait()
        try:
            for number in range(TIMES):
                work(number)
        except Exception as error:
            troubles.append(error)
            raise

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []


def test_steps_share_nothing_but_locks_small_objects_with_a_lock_and_what_is_published():
    names = {each.name for each in dataclasses.fields(State)}
    assert names == {"watchlist", "events", "decision_due", "record_lock", "is_in_doubt", "slices", "published"}


def test_what_was_published_stays_as_it_was_whatever_the_steps_do_next(lives):
    service = lives(0)
    service.parts.agent.checkpoints = (make_checkpoint("a.pt", 1),)
    service.run(1, make_job(1))
    published = dict(service.state.published)
    before = copy.deepcopy(published)
    assert {PolledQueue, RunHistories, QueuedMentions, FreeSpaceSamples, ScanProgress} <= published.keys()
    assert all(kind.__dataclass_params__.frozen for kind in published)
    service.parts.agent.checkpoints = (make_checkpoint("a.pt", 1), make_checkpoint("b.pt", 20))
    service.run(25, make_job(1), make_job(2))
    service.run(50, make_job(2), make_job(1, STATES.PENDING, 1, submitted_at=at(49)))
    assert service.state.latest(PolledQueue).tracked != published[PolledQueue].tracked
    assert published == before


def test_a_run_whose_end_was_polled_before_its_directory_was_searched_is_found_after_a_restart(lives):
    service = lives(0)
    ended = make_job(1, STATES.TIMEOUT, started_at=at(0), ends_at=at(20))
    for minutes, job in ((1, make_job(1)), (21, ended)):
        service.parts.source.jobs = (job, *OTHERS)
        poll.run(service.parts, service.state, at(minutes))  # and the daemon is killed before it searches
    service = lives(22)
    service.parts.agent.checkpoints = (make_checkpoint("a.pt", 10),)
    service.run(23, ended)
    assert [line.is_final for line in service.parts.store.lost_work.list_lines(RUN)] == [True]


def test_the_last_poll_is_known_after_a_restart_while_slurm_does_not_answer(lives):
    lives(0).run(1, make_job(1))
    after = lives(600)
    assert publish.report(after.parts, after.state, after.now).polled_at == at(1)


def test_changes_of_a_snapshot_by_several_threads_are_all_in_it():
    state = make_state()

    def add(thread):
        def add_one(number):
            run = RunKey(CLUSTER, thread, f"/{number}")
            state.change(FreeSpaceSamples, lambda samples: samples.with_samples({run: ()}))

        return add_one

    run_at_once(*map(add, range(THREADS)))
    assert len(state.latest(FreeSpaceSamples).by_run) == THREADS * TIMES


def test_the_watchlist_may_be_used_by_polls_scans_and_the_watcher_of_files_at_once():
    watchlist = Watchlist(timedelta(minutes=1))
    runs = [RUN._replace(directory=f"/data/{number}") for number in range(100)]
    directories = [run.directory for run in runs]

    def come_and_go(number):
        for run in runs:
            watchlist.visit([run], at(number))
            watchlist.record_scan(run, make_scan(number), at(number))  # it was the last look

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        run_at_once(
            come_and_go,
            lambda number: watchlist.keep(runs[:50], at(number)),
            lambda number: watchlist.hasten_directories(directories, at(number)),
            lambda number: watchlist.due(at(number), 10),
        )
    finally:
        sys.setswitchinterval(interval)
    assert {watched.key for watched in watchlist.all} == set(runs[:50])
