"""Jobs, attempts and runs as they come back from the record: over both databases."""

from pathlib import PurePosixPath

import pytest

from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import EndCause, RestartKind, RunKey, Unknown
from ckptd.core.model.records import DaemonIdentity
from ckptd.store import attempt_rows
from store.observing import HOSTILE, begin_run, history_of, make_flag, poll, scan
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job
from support.recorded import locate


def test_a_job_comes_back_as_it_was_seen(store):
    job = make_job(
        1,
        user=HOSTILE,
        name=HOSTILE,
        comment=HOSTILE,
        admin_comment=HOSTILE,
        dependency=HOSTILE,
        work_dir=PurePosixPath("/home/" + HOSTILE),
        array_job_id=1,
        array_task_id=0,
        mail_user=HOSTILE,
        uid=2**32 - 2,
    )
    poll(store, 0, job)
    assert store.jobs.read_tracked(CLUSTER)[1].job == job


def test_an_unchanged_queue_writes_nothing(store):
    poll(store, 0, make_job(1), make_job(2, STATES.PENDING))
    assert poll(store, 1, make_job(1)).is_empty


def test_the_time_left_follows_the_last_poll(store):
    poll(store, 0, make_job(1))
    poll(store, 30, make_job(1))
    (history,) = store.histories.read(CLUSTER, active_only=True)
    assert history.jobs[0].time_left == at(59) - at(30)
    assert history.polled_at == at(30)
    (row,) = store.jobs.list_open(at(40))
    assert row.time_left == at(59) - at(40)


@pytest.mark.filled_by(record=begin_run)
def test_a_requeue_is_two_attempts_of_one_run(store):
    poll(store, 5, make_job(1, STATES.PENDING, 1, submitted_at=at(4)))
    poll(store, 7, make_job(1, STATES.RUNNING, 1, submitted_at=at(4), started_at=at(6)))
    attempts = history_of(store).attempts
    assert [(each.restart_count, each.kind, each.cause) for each in attempts] == [
        (0, None, EndCause.REQUEUE),
        (1, RestartKind.REQUEUE, None),
    ]


def test_of_a_run_of_thousands_of_attempts_the_latest_are_told_and_those_that_run(store, monkeypatch):
    monkeypatch.setattr(attempt_rows, "ATTEMPT_COUNT", 3)
    for count in range(5):
        running = make_job(2, STATES.RUNNING, count, submitted_at=at(count), started_at=at(count))
        poll(store, count + 0.5, make_job(1), running)
    for number in (1, 2):
        locate(store, number)
    assert [(each.job.job_id, each.restart_count) for each in history_of(store).attempts] == [(1, 0), (2, 3), (2, 4)]


def test_a_job_joins_the_run_of_its_directory_with_what_was_known_of_it(store):
    poll(store, 0, make_job(1))
    (unlocated,) = store.histories.read(CLUSTER, active_only=True)
    flag = make_flag(unlocated.key)
    store.flags.record(FlagChanges(opened=(flag,)), at(0))
    locate(store, 1, minutes=3)
    (history,) = store.histories.read(CLUSTER, active_only=True)
    assert (history.key, history.located_by, history.recorded_since) == (RUN, "comment", at(0))
    assert [each.finding.run for each in store.flags.list_open(CLUSTER)] == [RUN]
    assert store.histories.read(CLUSTER, [unlocated.key]) == []


def test_jobs_that_follow_one_another_in_a_directory_are_one_run(store):
    poll(store, 0, make_job(11, array_job_id=10, array_task_id=1))
    locate(store, 11)
    over = make_job(11, STATES.COMPLETED, array_job_id=10, array_task_id=1, ends_at=at(4))
    poll(store, 5, over, make_job(12, array_job_id=10, array_task_id=2, started_at=at(5)))
    locate(store, 12)
    poll(store, 9, make_job(13, started_at=at(8)), accounting=())
    locate(store, 13)
    attempts = history_of(store).attempts
    assert [each.kind for each in attempts] == [None, RestartKind.ARRAY, RestartKind.RESUBMIT]


@pytest.mark.filled_by(record=begin_run)
def test_an_attempt_that_ended_in_another_directory_stays_there(store):
    poll(store, 5, make_job(1, STATES.PENDING, 1, submitted_at=at(4)))
    poll(store, 7, make_job(1, STATES.RUNNING, 1, submitted_at=at(4), started_at=at(6)))
    elsewhere = RunKey(CLUSTER, 1000, "/data/alice/other")
    locate(store, 1, elsewhere)
    assert [each.restart_count for each in history_of(store).attempts] == [0]
    assert [each.restart_count for each in history_of(store, elsewhere).attempts] == [1]


def test_a_vanished_job_ends_once_it_is_settled(store):
    poll(store, 0, make_job(1), make_job(2))
    assert poll(store, 5, make_job(2)).vanished
    assert store.jobs.read_tracked(CLUSTER)[1].is_open
    poll(store, 6, make_job(2), accounting=Unknown(what="accounting", reason="none"))
    assert not store.jobs.read_tracked(CLUSTER)[1].is_open
    assert len(store.histories.read(CLUSTER, active_only=True)) == 1


def test_the_id_of_an_array_finds_its_tasks_while_none_of_them_has_that_id(store):
    poll(store, 0, make_job(7, array_job_id=6, array_task_id=1))
    found = store.runs.find_of_job(6)
    assert found == store.runs.find_of_job(7) == store.runs.find_of_job(6, task_id=1)
    assert len(found) == 1
    assert store.runs.find_of_job(6, task_id=2) == ()


def test_an_id_that_wraps_is_another_job(store):
    poll(store, 0, make_job(1))
    poll(store, 600, make_job(1, uid=2000, user="bob", submitted_at=at(590), started_at=at(595)))
    (active,) = store.histories.read(CLUSTER, active_only=True)
    assert active.user == "bob"
    assert [key.uid for key in store.runs.find_of_job(1)] == [2000, 1000]


def test_an_ended_job_leaves_the_queue_for_good(store):
    poll(store, 0, make_job(1))
    poll(store, 5, make_job(1, STATES.COMPLETED, ends_at=at(4)))
    poll(store, 9)
    assert store.jobs.read_tracked(CLUSTER) == {}


def test_another_users_running_job_in_the_same_directory_is_another_writer(store):
    poll(store, 0, make_job(1), make_job(2, uid=2000, user="bob"), make_job(3, STATES.COMPLETING, uid=3000, user="eve"))
    locate(store, 1)
    theirs = RunKey(CLUSTER, 2000, RUN.directory)
    locate(store, 2, theirs)
    locate(store, 3, RunKey(CLUSTER, 3000, RUN.directory))
    assert [(job.job_id, user) for job, user in history_of(store).other_writers] == [(2, "alice")]
    assert [job.job_id for job, _ in history_of(store, theirs).other_writers] == [1]


def test_the_status_says_since_when_slurm_does_not_answer(store):
    daemon = DaemonIdentity(host="admin1", pid=42, version="0.1.0", started_at=at(-5))
    trouble = Unknown(what="squeue", reason="Unable to contact slurm controller")
    store.clusters.record_heartbeat(CLUSTER, daemon, at(0))
    store.clusters.record_poll(CLUSTER, at(0))
    store.clusters.record_poll(CLUSTER, at(1), trouble)
    store.clusters.record_poll(CLUSTER, at(2), trouble)
    (status,) = store.clusters.read_status()
    assert (status.polled_at, status.poll_failed_at, status.poll_trouble) == (at(0), at(1), trouble)
    assert (status.daemon, status.heartbeat_at) == (daemon, at(0))
    store.clusters.record_poll(CLUSTER, at(3))
    (status,) = store.clusters.read_status()
    assert (status.polled_at, status.poll_failed_at, status.poll_trouble) == (at(3), None, None)


def test_runs_that_ended_are_listed_for_their_user_the_latest_first(store):
    poll(store, 0, make_job(1), make_job(2), make_job(3), make_job(4, user="bob", uid=2000))
    locate(store, 1)
    scan(store, 3, make_checkpoint("a", 1, step=10, epoch=1))
    poll(store, 5, make_job(1, STATES.TIMEOUT, ends_at=at(4)), make_job(3))
    bob = make_job(4, STATES.FAILED, user="bob", uid=2000, ends_at=at(8))
    poll(store, 9, make_job(3, STATES.COMPLETED, ends_at=at(8)), bob)
    poll(store, 10, make_job(1, restart_count=0, submitted_at=at(10), started_at=at(10)))
    locate(store, 1)
    assert RUN not in {run.run for run in store.ended_runs.list_of_user("alice", 10)}  # another job goes on with it
    poll(store, 12, make_job(1, STATES.TIMEOUT, submitted_at=at(10), started_at=at(10), ends_at=at(11)))
    latest, *others = store.ended_runs.list_of_user("alice", 10)
    assert (latest.run, latest.job_id, latest.attempt_count, latest.ended_at) == (RUN, 1, 2, at(11))
    assert latest.cause is EndCause.TIME_LIMIT
    assert (latest.step, latest.checkpoint_count, latest.checkpoint_bytes) == (10, 1, 10)
    assert [run.job_id for run in others][:1] == [3]
    assert all(run.checkpoint_count == 0 for run in others)
    assert store.ended_runs.list_of_user("alice", 1) == (latest,)
    assert [(run.user, run.cause) for run in store.ended_runs.list_of_user("bob", 10)] == [("bob", EndCause.FAILURE)]
    assert store.ended_runs.list_of_user("nobody", 10) == ()
    assert store.ended_runs.list_of_user("alice", 1, CLUSTER) == (latest,)
    assert store.ended_runs.list_of_user("alice", 1, "another") == ()


def test_the_ended_runs_that_have_complete_checkpoints_are_listed(store):
    poll(store, 0, make_job(1), make_job(2))
    locate(store, 1)
    scan(store, 3, make_checkpoint("step-5.pt", written=1), make_checkpoint("step-9.pt", written=2))
    assert store.ended_runs.list_saved(CLUSTER, at(0)) == {}
    poll(store, 5, make_job(1, STATES.TIMEOUT, ends_at=at(4)), make_job(2))
    assert store.ended_runs.list_saved(CLUSTER, at(4)) == {RUN: at(2)}
    assert store.ended_runs.list_saved(CLUSTER, at(4.5)) == {}
    assert store.ended_runs.list_saved("another", at(0)) == {}
    scan(store, 6)
    assert store.ended_runs.list_saved(CLUSTER, at(4)) == {}


@pytest.mark.filled_by(record=begin_run)
def test_a_backup_that_a_program_makes_after_each_save_is_not_the_newest_checkpoint(store):
    backup = make_checkpoint("state_prev.cpt", 2, step=10)
    scan(store, 3, make_checkpoint("state.cpt", 1, step=20), backup, make_checkpoint("other", 0, step=1))
    (row,) = store.jobs.list_open(at(4))
    assert row.step == 20
    scan(store, 5, backup)  # the only one that is left
    (row,) = store.jobs.list_open(at(6))
    assert row.step == 10
    scan(store, 7, make_checkpoint("state.cpt", 1, step=20), backup)
    poll(store, 9, make_job(1, STATES.TIMEOUT, ends_at=at(8)))
    (ended,) = store.ended_runs.list_of_user("alice", 10)
    assert ended.step == 20
