"""What the record alone proves of who wrote a checkpoint, when a run is taken up anew: over both databases."""

from dataclasses import replace

import pytest

from ckptd.core import queue
from ckptd.core.model import Unknown
from ckptd.core.model.records import ScanRecord
from ckptd.core.queue import accounting_merge
from ckptd.core.runs import ownership, progress
from support.queue_facts import CLUSTER, RUN, STATES, at, look, make_checkpoint, make_job, make_row, make_scan
from support.recorded import note_run


class Watch:
    """A daemon's part in it: looks at the queue every five minutes, and at the directory when told."""

    def __init__(self, store):
        self.store = store
        self.observed_at = None

    def poll(self, minutes, *jobs, ended=()):
        changes = queue.compare(self.store.jobs.read_tracked(CLUSTER), look(minutes, *jobs))
        self.store.jobs.record(accounting_merge.merge_accounting(changes, ended, at(minutes)))
        self.store.clusters.record_poll(CLUSTER, at(minutes))
        for known in self.store.jobs.read_tracked(CLUSTER).values():
            if known.run is None or not known.run.is_located:
                note_run(self.store, RUN, at(minutes), jobs=[known.key])

    def follow(self, begin, end, *jobs):
        for minutes in range(begin, end + 1, 5):
            self.poll(minutes, *jobs)

    def look(self, minutes, *names_and_minutes, **changes):
        """Look at the directory; return which job is credited with each checkpoint that is on record then."""
        found = [make_checkpoint(f"step-{name}.pt", written) for name, written in names_and_minutes]
        seen = make_scan(minutes, *found, **changes)
        known = self.store.checkpoints.read_last_scans(CLUSTER, [RUN])[RUN]
        writers = ownership.find_writers(RUN, known, self.observed_at, at(minutes))
        changes = progress.merge_scan(self.store.checkpoints.read(RUN), seen, writers, at(minutes))
        self.store.checkpoints.record_scans([ScanRecord(run=RUN, changes=changes, scan=seen)])
        self.observed_at = at(minutes)
        return {
            int(record.checkpoint.path.stem.removeprefix("step-")): record.attempt and record.attempt[0].job_id
            for record in self.store.checkpoints.read(RUN)
        }

    def drop(self):
        """The run's jobs have ended, or the daemon has: what only its memory knew is gone."""
        self.observed_at = None


TASK = {"array_job_id": 1}


def fill(store):
    """Job 1 has run from before noon until minute 10 and saved in its run's directory, while it was watched."""
    watched = Watch(store)
    first = make_job(1, array_task_id=1, **TASK)
    watched.poll(0, first)
    watched.look(1)
    watched.poll(5, first)
    assert watched.look(8, (1, 6)) == {1: 1}
    watched.poll(10, ended=(make_row(1, -1, 10, STATES.COMPLETED, submitted=-2),))
    watched.look(10, (1, 6))


@pytest.fixture
def watch(store):
    """A daemon that starts with what is on record."""
    return Watch(store)


def second_job(started=60):
    return make_job(2, array_task_id=2, started_at=at(started), submitted_at=at(-2), ends_at=at(started + 60), **TASK)


@pytest.mark.filled_by(record=fill)
def test_the_next_job_of_a_run_is_credited_with_what_it_saved_before_it_was_first_looked_at(watch):
    watch.follow(15, 55)
    watch.poll(60, second_job())
    assert watch.look(64, (1, 6), (2, 61)) == {1: 1, 2: 2}


def test_a_restarted_daemon_credits_what_was_saved_while_it_was_away_for_a_moment(store):
    watched = Watch(store)
    watched.poll(0, make_job(1))
    watched.look(1)
    watched.poll(5, make_job(1))
    watched.drop()
    watched.poll(12, make_job(1))
    assert watched.look(12, (1, 10)) == {1: 1}


def test_a_daemon_that_was_away_for_long_proves_nothing_of_that_time(store):
    watched = Watch(store)
    watched.poll(0, make_job(1))
    watched.look(1)
    watched.drop()
    watched.poll(40, make_job(1))
    assert watched.look(41, (1, 10), (2, 40.5)) == {1: None, 2: None}
    assert watched.look(45, (1, 10), (2, 40.5), (3, 43)) == {1: None, 2: None, 3: 1}


@pytest.mark.filled_by(record=fill)
def test_a_database_restored_from_an_old_backup_proves_nothing_of_what_came_after_it(watch):
    watch.poll(600, second_job(590))  # the backup ends with minute 10
    assert watch.look(601, (1, 6), (2, 400), (3, 595)) == {1: 1, 2: None, 3: None}


def test_a_database_restored_under_a_running_daemon_proves_nothing_of_what_came_after_it(store):
    watched = Watch(store)
    watched.poll(0, make_job(1))
    watched.look(1)
    watched.observed_at = at(600)  # the daemon has watched all the time, but the record does not know
    assert watched.look(601, (1, 400)) == {1: None}


@pytest.mark.filled_by(record=fill)
def test_a_restored_database_is_not_believed_before_the_queue_was_read_into_it(watch):
    assert watch.look(300, (1, 6), (2, 9.9)) == {1: 1, 2: None}


@pytest.mark.filled_by(record=fill)
def test_a_gap_in_the_looks_at_the_queue_leaves_room_for_a_job_that_nobody_saw(watch):
    watch.follow(15, 30)
    watch.follow(45, 55)
    watch.poll(60, second_job())
    assert watch.look(64, (1, 6), (2, 61)) == {1: 1, 2: None}


def test_foreign_old_checkpoints_in_a_directory_stay_unproven(store):
    watched = Watch(store)
    watched.poll(0, make_job(1))
    assert watched.look(1, (7, -900), (8, -0.5)) == {7: None, 8: None}
    watched.follow(5, 5, make_job(1))
    assert watched.look(8, (7, -900), (8, -0.5), (9, 7)) == {7: None, 8: None, 9: 1}


def test_a_new_run_in_an_old_directory_proves_nothing_of_what_it_finds_there(store):
    watched = Watch(store)
    watched.follow(0, 30)
    watched.poll(35, make_job(1, started_at=at(31)))
    assert watched.look(36, (1, -900), (2, 33)) == {1: None, 2: None}


@pytest.mark.filled_by(record=fill)
def test_old_files_moved_in_between_two_jobs_stay_unproven(watch):
    watch.follow(15, 55)
    watch.poll(60, second_job())
    assert watch.look(64, (1, 6), (2, 5), (3, 30), (4, 61)) == {1: 1, 2: None, 3: None, 4: 2}


@pytest.mark.filled_by(record=fill)
def test_an_old_file_moved_in_while_a_later_job_runs_is_not_the_earlier_jobs(watch):
    watch.follow(15, 55)
    watch.poll(60, second_job())
    watch.look(64, (1, 6))
    assert watch.look(70, (1, 6), (2, 5), (3, 66)) == {1: 1, 2: None, 3: 2}


@pytest.mark.filled_by(record=fill)
def test_an_earlier_look_that_did_not_see_everything_proves_nothing(watch):
    watch.follow(15, 20)
    watch.look(20, (1, 6), problems=(Unknown(what="sub", reason="Permission denied"),))
    watch.drop()
    watch.follow(25, 55)
    watch.poll(60, second_job())
    assert watch.look(64, (1, 6), (2, 61)) == {1: 1, 2: None}


@pytest.mark.filled_by(record=fill)
def test_a_file_of_another_owner_is_never_proven_by_the_record(watch):
    watch.follow(15, 55)
    watch.poll(60, second_job())
    seen = make_scan(64, replace(make_checkpoint("step-2.pt", 61), owner_uids=frozenset({0})))
    known = watch.store.checkpoints.read_last_scans(CLUSTER, [RUN])[RUN]
    assert ownership.find_writers(RUN, known, None, at(64)).credit(seen.checkpoints[0]) is None
