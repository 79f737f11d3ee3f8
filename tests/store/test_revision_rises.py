"""What changes of jobs leave of a run's checkpoints is not read again, and a history is that of the database."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import queue
from ckptd.core.model import JobState
from ckptd.core.model.records import LocationRecord, ScanRecord
from ckptd.core.runs.cadence import with_rhythm
from ckptd.store import history_rows
from ckptd.store.fresh_checkpoints import ScanUpdate, ShownCheckpoints
from support import recorded
from support.examples import FACTOR
from support.queue_facts import CLUSTER, RUN, at, look, make_checkpoint, make_job, make_scan, merge


def begin_run(store):
    recorded.poll(store, 0, make_job(1))
    recorded.locate(store, 1)


pytestmark = pytest.mark.filled_by(record=begin_run)


def read_revised(store, known=None):
    found = store.histories.read_changed({RUN: known}).records.get(RUN)
    if found is None:
        return known
    record = with_rhythm(replace(found.record, scan=None))  # of the same checkpoints, decisions complete both
    return found._replace(record=record, shown=ShownCheckpoints.of(record.checkpoints))


def poll(store, minute, *jobs):
    """Record a poll as the daemon does."""
    changes = queue.compare(store.jobs.read_tracked(CLUSTER), look(minute, *jobs))
    store.histories.fresh.keep_same(store.jobs.record(replace(changes, vanished=())))


def locate(store, minute, job_id):
    known = store.jobs.read_tracked(CLUSTER).get(job_id)
    jobs = () if known is None or known.run == RUN else (known.key,)
    found = LocationRecord(jobs=jobs, run=RUN, user="alice", located_by="comment")
    store.histories.fresh.keep_same(store.located_runs.record([found], at(minute)))


def scan(store, minute, *found):
    """Record a scan as the daemon does."""
    read_at = store.runs.read_revisions_of([RUN])[RUN]
    there = store.checkpoints.read_present([RUN])[RUN]
    seen = make_scan(minute, *found)
    alike = store.checkpoints.read_deleted_alike({RUN: seen.checkpoints})[RUN]
    attempts = store.checkpoints.read_last_scans(CLUSTER, [RUN])[RUN].attempts
    changes = merge((*there, *alike), seen, attempts, minute - 1)
    risen = store.checkpoints.record_scans([ScanRecord(run=RUN, scan=seen, changes=changes)])
    if RUN not in risen:
        return
    if changes.is_empty:
        store.histories.fresh.keep_same(risen)
    elif read_at == risen[RUN].before:
        before = risen[RUN].before if there or alike else None
        store.histories.fresh.keep(RUN, ScanUpdate(before, risen[RUN].after, there, (*there, *alike), changes))


def save(count):
    return [make_checkpoint(f"step-{number}.pt", number / 100, step=number) for number in range(count)]


@pytest.fixture
def readings(monkeypatch):
    """The runs whose checkpoints were read from the database."""
    found = []
    load = history_rows._load_checkpoints
    monkeypatch.setattr(
        history_rows,
        "_load_checkpoints",
        lambda select, runs, **words: found.append(runs) or load(select, runs, **words),
    )
    return found


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 150])
def test_a_restart_in_a_directory_reads_none_of_its_checkpoints_again(store, readings, count):
    scan(store, 2, *save(count))
    store.histories.fresh.take(RUN, -1)
    known = read_revised(store)
    readings.clear()
    poll(store, 3, make_job(1, state=JobState.COMPLETED, ends_at=at(3)))
    ended = read_revised(store, known)
    poll(store, 4, make_job(2, started_at=at(4)))
    locate(store, 4, 2)
    scan(store, 5, *save(count))
    restarted = read_revised(store, ended)
    assert readings == []
    assert len(restarted.record.attempts) == 2
    assert (ended.record.attempts[0].ended_at, len(restarted.record.checkpoints)) == (at(3), min(count, 64) or 0)
    assert restarted == read_revised(store)


def test_a_new_checkpoint_beside_a_restart_is_followed(store, readings):
    scan(store, 2, *save(3))
    known = read_revised(store)
    readings.clear()
    poll(store, 3, make_job(1, state=JobState.COMPLETED, ends_at=at(3)))
    scan(store, 4, *save(3), make_checkpoint("last.pt", 2.5, step=9))
    poll(store, 5, make_job(2, started_at=at(5)))
    locate(store, 5, 2)
    found = read_revised(store, known)
    assert readings == []
    assert len(found.record.checkpoints) == 4
    assert found == read_revised(store)


def test_a_checkpoint_of_the_next_attempt_is_read_again(store, readings):
    scan(store, 32, make_checkpoint("late.pt", 31))
    known = read_revised(store)
    readings.clear()
    poll(store, 35, make_job(1, restart_count=1, started_at=at(30), submitted_at=at(29)))
    found = read_revised(store, known)
    assert (known.record.checkpoints[0].attempt[1], found.record.checkpoints[0].attempt[1]) == (0, 1)
    assert len(readings) == 1


def test_what_a_person_changed_meanwhile_is_read_again(store):
    scan(store, 2, *save(1))
    known = read_revised(store)
    poll(store, 3, make_job(1, state=JobState.COMPLETED, ends_at=at(3)))
    store.checkpoints.set_pinned(RUN, f"{RUN.directory}/step-0.pt", is_pinned=True)
    poll(store, 4, make_job(2, started_at=at(4)))
    locate(store, 4, 2)
    [found] = read_revised(store, known).record.checkpoints
    assert found.is_pinned


class Restarts:
    """Jobs that restart in one directory, and save there."""

    def __init__(self, store, luck):
        self._store, self._luck = store, luck
        self._job, self._count, self._names = 1, 0, []

    def change(self, minute):
        store, luck = self._store, self._luck
        kind = luck.choice(["end", "start", "requeue", "change", "locate", "pin", "scan", "scan"])
        if kind == "start":
            self._job += 1
        jobs = {
            "end": {"state": JobState.FAILED, "ends_at": at(minute)},
            "start": {"started_at": at(minute)},
            "requeue": {"restart_count": minute, "started_at": at(minute - 0.5)},
            "change": {"comment": str(minute)},
        }
        if kind in jobs:
            poll(store, minute, make_job(self._job, **jobs[kind]))
        elif kind == "locate":
            locate(store, minute, self._job)
        elif kind == "scan":
            scan(store, minute, *self._save())
        elif self._names:
            store.checkpoints.set_pinned(
                RUN, f"{RUN.directory}/{luck.choice(self._names)}", is_pinned=luck.random() < 0.5
            )

    def _save(self):
        luck = self._luck
        self._count += luck.choice([0, 0, 1, 2, 15])
        first = max(0, self._count - luck.choice([10, 40, 100, 100]))
        late = timedelta(seconds=luck.choice([0, 0, 0, 90]))
        found = [make_checkpoint(f"step-{number}.pt", number / 4, step=number) for number in range(first, self._count)]
        self._names = [each.path.name for each in found]
        return [replace(each, modified_at=each.modified_at + late) for each in found]


@pytest.mark.parametrize("seed", range(FACTOR + 1))
def test_histories_of_runs_with_many_restarts_are_those_of_the_database(store, seed):
    luck = random.Random(seed)
    restarts, known = Restarts(store, luck), None
    for minute in range(2, 60):
        for _ in range(luck.choice([1, 1, 2, 3])):
            restarts.change(minute)
        if luck.random() < 0.7:
            before, known = known, read_revised(store, known)
            assert known is before or known == read_revised(store)
    assert known.record.attempts
