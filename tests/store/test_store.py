import multiprocessing
import os
import signal
from concurrent import futures
from dataclasses import replace
from pathlib import PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckptd.core import ownership, progress, settlement, tracking
from ckptd.core.alerts import FlagChanges
from ckptd.core.model import (
    EndCause,
    FileIdentity,
    Finding,
    Flag,
    Reach,
    RestartKind,
    RunKey,
    Severity,
    Unknown,
)
from ckptd.core.record import AuditEntry, Daemon
from ckptd.store import clusters, columns, histories
from ckptd.store.engine import StoreError
from ckptd.store.store import Store
from store import record_writer
from support.queue_facts import CLUSTER, NOON, RUN, STATES, at, look, make_checkpoint, make_job, make_scan

HOSTILE = "a\x00b\\u0000|\n'\";--\udcff\ud800é\U0001f600\\"


def poll(store, minutes, *jobs, settle=None):
    """One step of a cycle: compare, settle where asked to, record; what is read back is what was meant."""
    snapshot = look(minutes, *jobs)
    before = store.read_tracked(CLUSTER)
    changes = tracking.compare(before, snapshot)
    if settle is not None:
        changes = settlement.settle(changes, settle, snapshot.polled_at)
    store.record_jobs(changes)
    store.record_poll(CLUSTER, snapshot.polled_at)
    meant = {job_id: plain(known) for job_id, known in tracking.apply(before, changes).items()}
    assert {job_id: plain(known) for job_id, known in store.read_tracked(CLUSTER).items()} == meant
    return changes


def plain(known):
    """What the queue decides of a tracked job: not its run, nor what its run says of its attempt."""
    attempt = known.attempt and replace(known.attempt, kind=None, resumed_from=None)
    return known.key, known.job, attempt, known.ended_at


def locate(store, job_id, run=RUN, minutes=0):
    key = store.read_tracked(CLUSTER)[job_id].key
    store.assign_run([key], run, "alice", "comment", at(minutes))
    return key


def scan(store, minutes, *found, run=RUN, looked=None, **changes):
    (history,) = store.read_histories(CLUSTER, [run])
    seen = make_scan(minutes, *found, **changes)
    writers = ownership.Writers(
        owner_uid=run.uid, attempts=history.attempts, looked_at=None if looked is None else at(looked)
    )
    result = progress.merge_scan(store.read_recorded(run), seen, writers, seen.scanned_at)
    store.record_scan(run, result, seen)
    return result


def history_of(store, run=RUN):
    (history,) = store.read_histories(CLUSTER, [run])
    return history


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
    assert store.read_tracked(CLUSTER)[1].job == job


def test_an_unchanged_queue_writes_nothing(store):
    poll(store, 0, make_job(1), make_job(2, STATES.PENDING))
    assert poll(store, 1, make_job(1)).is_empty


def test_the_time_left_follows_the_last_poll(store):
    poll(store, 0, make_job(1))
    poll(store, 30, make_job(1))
    (history,) = store.read_histories(CLUSTER, active_only=True)
    assert history.jobs[0].time_left == at(59) - at(30)
    assert history.polled_at == at(30)
    (row,) = store.list_jobs(at(40))
    assert row.time_left == at(59) - at(40)


def test_a_requeue_is_two_attempts_of_one_run(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    poll(store, 5, make_job(1, STATES.PENDING, 1, submitted_at=at(4)))
    poll(store, 7, make_job(1, STATES.RUNNING, 1, submitted_at=at(4), started_at=at(6)))
    attempts = history_of(store).attempts
    assert [(each.restart_count, each.kind, each.cause) for each in attempts] == [
        (0, None, EndCause.REQUEUE),
        (1, RestartKind.REQUEUE, None),
    ]


def test_a_job_joins_the_run_of_its_directory_with_what_was_known_of_it(store):
    poll(store, 0, make_job(1))
    (unlocated,) = store.read_histories(CLUSTER, active_only=True)
    flag = make_flag(unlocated.key)
    store.record_flags(FlagChanges(opened=(flag,)), at(0))
    locate(store, 1, minutes=3)
    (history,) = store.read_histories(CLUSTER, active_only=True)
    assert (history.key, history.located_by, history.recorded_since) == (RUN, "comment", at(0))
    assert [each.finding.run for each in store.read_open_flags(CLUSTER)] == [RUN]
    assert store.read_histories(CLUSTER, [unlocated.key]) == []


def test_jobs_that_follow_one_another_in_a_directory_are_one_run(store):
    poll(store, 0, make_job(11, array_job_id=10, array_task_id=1))
    locate(store, 11)
    over = make_job(11, STATES.COMPLETED, array_job_id=10, array_task_id=1, ends_at=at(4))
    poll(store, 5, over, make_job(12, array_job_id=10, array_task_id=2, started_at=at(5)))
    locate(store, 12)
    poll(store, 9, make_job(13, started_at=at(8)), settle=())
    locate(store, 13)
    attempts = history_of(store).attempts
    assert [each.kind for each in attempts] == [None, RestartKind.ARRAY, RestartKind.RESUBMIT]


def test_an_attempt_that_ended_in_another_directory_stays_there(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    poll(store, 5, make_job(1, STATES.PENDING, 1, submitted_at=at(4)))
    poll(store, 7, make_job(1, STATES.RUNNING, 1, submitted_at=at(4), started_at=at(6)))
    elsewhere = RunKey(CLUSTER, 1000, "/data/alice/other")
    locate(store, 1, elsewhere)
    assert [each.restart_count for each in history_of(store).attempts] == [0]
    assert [each.restart_count for each in history_of(store, elsewhere).attempts] == [1]


def test_a_vanished_job_ends_once_it_is_settled(store):
    poll(store, 0, make_job(1), make_job(2))
    assert poll(store, 5, make_job(2)).vanished
    assert store.read_tracked(CLUSTER)[1].is_open
    poll(store, 6, make_job(2), settle=Unknown(what="accounting", reason="none"))
    assert not store.read_tracked(CLUSTER)[1].is_open
    assert len(store.read_histories(CLUSTER, active_only=True)) == 1


def test_an_id_that_wraps_is_another_job(store):
    poll(store, 0, make_job(1))
    poll(store, 600, make_job(1, uid=2000, user="bob", submitted_at=at(590), started_at=at(595)))
    (active,) = store.read_histories(CLUSTER, active_only=True)
    assert active.user == "bob"
    assert [key.uid for key in store.find_runs_of_job(1)] == [2000, 1000]


def test_an_ended_job_leaves_the_queue_for_good(store):
    poll(store, 0, make_job(1))
    poll(store, 5, make_job(1, STATES.COMPLETED, ends_at=at(4)))
    poll(store, 9)
    assert store.read_tracked(CLUSTER) == {}


def test_a_checkpoint_comes_back_as_it_was_seen(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    wild = make_checkpoint(
        "w-" + HOSTILE.replace("/", "") + "x" * 3000,
        files=(HOSTILE, "b"),
        identities=(FileIdentity(2**64 - 1, 2**64 - 1, 2**63, -5), FileIdentity(1, 2, 3, 4)),
        epoch=2.5,
        name_epoch=2,
        step=2**62,
        name_step=0,
        is_best=True,
        metrics={HOSTILE: 0.1, "n": 3},
        unsafe=(HOSTILE,),
        reason=HOSTILE,
        owner_uids=frozenset({1000, 2**32 - 2}),
    )
    result = scan(store, 1, wild)
    assert store.read_recorded(RUN) == result.appeared
    assert history_of(store).checkpoints == result.appeared
    assert scan(store, 2, wild).is_empty


def test_a_replaced_checkpoint_is_kept_in_the_history(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    first = make_checkpoint("checkpoint", step=1)
    second = replace(first, step=2, identities=(FileIdentity(1, 99, 10, 5),), modified_at=at(5))
    scan(store, 1, first)
    scan(store, 6, second, looked=1)
    found = history_of(store).checkpoints
    assert [(each.checkpoint.step, each.gone_at) for each in found] == [(1, at(6)), (2, None)]
    assert found[1].attempt == (store.read_tracked(CLUSTER)[1].key, 0)


def test_a_restart_knows_what_it_could_resume_from(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    scan(store, 3, make_checkpoint("step-1.pt", 1), make_checkpoint("step-2.pt", 2))
    poll(store, 5, make_job(1, STATES.PENDING, 1, submitted_at=at(4)))
    poll(store, 7, make_job(1, STATES.RUNNING, 1, submitted_at=at(4), started_at=at(6)))
    assert history_of(store).attempts[-1].resumed_from == "/data/alice/run/step-2.pt"


def test_a_look_that_failed_is_unknown_until_one_succeeds(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    assert history_of(store).scan is None
    seen = scan(store, 1, make_checkpoint(), leftovers=(HOSTILE,), free_bytes=10, total_bytes=2**62)
    trouble = Unknown(what=RUN.directory, reason="Stale file handle")
    store.record_scan(RUN, progress.CheckpointChanges(), trouble)
    history = history_of(store)
    assert (history.scan, history.checkpoints) == (trouble, seen.appeared)
    partial = make_scan(3, problems=(Unknown(what=HOSTILE, reason="denied"),))
    store.record_scan(RUN, progress.CheckpointChanges(), partial)
    assert history_of(store).scan.problems == partial.problems
    store.record_scan(RUN, progress.CheckpointChanges(), make_scan(4))
    assert (history_of(store).scan.is_whole, history_of(store).scan.scanned_at) == (True, at(4))


def test_an_unchanged_directory_only_moves_the_time_of_its_look(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    scan(store, 1, make_checkpoint())
    store.record_scan(RUN, progress.CheckpointChanges(), make_scan(9))
    history = history_of(store)
    assert history.scan.scanned_at == at(9)
    assert len(history.scan.checkpoints) == 1
    assert store.read_status()[0].scanned_at == at(9)


def test_another_users_running_job_in_the_same_directory_is_another_writer(store):
    poll(store, 0, make_job(1), make_job(2, uid=2000, user="bob"), make_job(3, STATES.COMPLETING, uid=3000, user="eve"))
    locate(store, 1)
    theirs = RunKey(CLUSTER, 2000, RUN.directory)
    locate(store, 2, theirs)
    locate(store, 3, RunKey(CLUSTER, 3000, RUN.directory))
    assert [(job.job_id, user) for job, user in history_of(store).other_writers] == [(2, "alice")]
    assert [job.job_id for job, _ in history_of(store, theirs).other_writers] == [1]


def test_another_process_that_writes_is_seen_by_a_reader_that_remembers(store, database_url):
    poll(store, 0, make_job(1))
    locate(store, 1)
    scan(store, 1, make_checkpoint())
    assert not history_of(store).checkpoints[0].is_pinned
    other = Store.open(database_url)
    assert other.set_pinned(RUN, "/data/alice/run/step-1.pt", is_pinned=True) == 1
    other.close()
    assert history_of(store).checkpoints[0].is_pinned


def test_a_pin_set_between_reading_and_recording_is_kept(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    scan(store, 1, make_checkpoint())
    recorded = store.read_recorded(RUN)
    store.set_pinned(RUN, "/data/alice/run/step-1.pt", is_pinned=True)
    seen = make_scan(2, make_checkpoint(is_best=True))
    store.record_scan(RUN, progress.merge_scan(recorded, seen, ownership.Writers(owner_uid=1000), at(2)), seen)
    assert store.read_recorded(RUN)[0].is_pinned


def test_a_history_holds_the_newest_checkpoints_and_the_record_all(store, monkeypatch):
    monkeypatch.setattr(histories, "CHECKPOINT_LIMIT", 2)
    poll(store, 0, make_job(1))
    locate(store, 1)
    found = [make_checkpoint(f"step-{number}.pt", number) for number in range(5)]
    scan(store, 6, *found)
    assert [each.checkpoint.path.name for each in history_of(store).checkpoints] == ["step-3.pt", "step-4.pt"]
    assert len(store.read_recorded(RUN)) == 5


def test_a_history_holds_the_furthest_checkpoint_however_old(store, monkeypatch):
    monkeypatch.setattr(histories, "CHECKPOINT_LIMIT", 2)
    poll(store, 0, make_job(1))
    locate(store, 1)
    found = [make_checkpoint(f"c{number}.pt", number, step=10 - number) for number in range(5)]
    scan(store, 6, *found)
    assert [each.checkpoint.path.name for each in history_of(store).checkpoints] == ["c0.pt", "c3.pt", "c4.pt"]
    assert history_of(store).is_cut


def test_a_history_tells_how_far_each_attempt_got_by_all_of_its_saves(store, monkeypatch):
    monkeypatch.setattr(histories, "CHECKPOINT_LIMIT", 2)
    poll(store, 0, make_job(1))
    locate(store, 1)
    scan(store, 6, *(make_checkpoint(f"c{number}.pt", number, step=number) for number in range(1, 6)))
    assert history_of(store).reaches == (Reach(save_count=5, steps=(1, 5), epochs=None),)
    monkeypatch.setattr(histories, "CHECKPOINT_LIMIT", 9)
    store._histories = histories.Histories()
    assert history_of(store).reaches is None


def test_what_is_not_remembered_is_read_again(store):
    store._histories = histories.Histories(held_count=1)
    for job_id in (1, 2, 3):
        poll(store, job_id, *(make_job(number) for number in range(1, job_id + 1)))
        locate(store, job_id, RunKey(CLUSTER, 1000, f"/data/{job_id}"))
    first = store.read_histories(CLUSTER, active_only=True)
    assert store.read_histories(CLUSTER, active_only=True) == first
    assert len(first) == 3


def make_flag(run=RUN, severity=Severity.WARNING, job_id=1, **evidence):
    finding = Finding(
        rule="at-risk",
        severity=severity,
        run=run,
        job_id=job_id,
        user=HOSTILE,
        evidence={"seconds": 1, "text": HOSTILE, "names": [HOSTILE], "share": 0.5, "nothing": None} | evidence,
        advice=HOSTILE,
        tells=("user", "admin"),
    )
    return Flag(finding=finding, opened_at=at(1))


def test_a_flag_opens_worsens_and_resolves(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    (opened,) = store.record_flags(FlagChanges(opened=(make_flag(),)), at(1))
    assert store.read_open_flags(CLUSTER) == (opened,)
    assert replace(opened, flag_id=None) == make_flag()
    worse = replace(opened, finding=make_flag(severity=Severity.CRITICAL, seconds=9).finding, worsened_at=at(2))
    store.record_flags(FlagChanges(worsened=(worse,)), at(2))
    assert store.read_open_flags(CLUSTER) == (worse,)
    newer = replace(worse, finding=make_flag(severity=Severity.CRITICAL, seconds=5).finding)
    store.record_flags(FlagChanges(updated=(newer,)), at(3))
    assert store.read_open_flags(CLUSTER) == (newer,)
    store.record_flags(FlagChanges(resolved=(replace(newer, resolved_at=at(4)),)), at(4))
    assert store.read_open_flags(CLUSTER) == ()
    assert [flag.resolved_at for flag in store.read_flags(include_resolved=True)] == [at(4)]


def test_a_flag_of_a_run_that_is_not_on_record_leaves_nothing_of_its_transaction(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    changes = FlagChanges(opened=(make_flag(), make_flag(RunKey(CLUSTER, 1, "/none"))))
    with pytest.raises(StoreError, match="not on record"):
        store.record_flags(changes, at(1))
    assert store.read_flags(include_resolved=True) == ()


def test_a_run_with_an_open_flag_stays_active_after_its_last_job(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    (flag,) = store.record_flags(FlagChanges(opened=(make_flag(),)), at(1))
    poll(store, 5, make_job(1, STATES.COMPLETED, ends_at=at(4)))
    (history,) = store.read_histories(CLUSTER, active_only=True)
    assert history.jobs == ()
    store.record_flags(FlagChanges(resolved=(flag,)), at(6))
    assert store.read_histories(CLUSTER, active_only=True) == []


def test_a_listing_shows_the_newest_complete_checkpoint_and_the_flags(store):
    poll(store, 0, make_job(1), make_job(2, user="bob", uid=2000))
    locate(store, 1)
    scan(store, 3, make_checkpoint("a", 1, step=10, epoch=1), make_checkpoint("b", 2, step=20, epoch=2))
    store.record_flags(FlagChanges(opened=(make_flag(), make_flag(job_id=7))), at(1))
    first, second = store.list_jobs(at(4))
    assert (first.directory, first.located_by, first.step, first.epoch) == (RUN.directory, "comment", 20, 2)
    assert (first.newest_checkpoint_at, first.checkpoint_count, first.checkpoint_bytes) == (at(2), 2, 20)
    assert first.flags == ("at-risk",)
    assert (second.directory, second.newest_checkpoint_at, second.checkpoint_count, second.flags) == (None, None, 0, ())
    assert [row.user for row in store.list_jobs(at(4), user="bob")] == ["bob"]
    assert [row.key.job_id for row in store.list_jobs(at(4), flagged_only=True)] == [1]


def test_an_act_is_on_record_before_it_is_finished(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    entry = AuditEntry(
        cluster=CLUSTER,
        actor="policy default",
        action="move-aside",
        target="/data/" + HOSTILE,
        run=RUN,
        plan_id="p1",
        reasons=("no rule keeps it",),
        details={"size_bytes": 10},
        begun_at=at(1),
    )
    number = store.append_audit(entry)
    assert store.read_audit(CLUSTER, unfinished_only=True) == (replace(entry, audit_id=number),)
    store.finish_audit(number, "moved", at(2))
    assert store.read_audit(CLUSTER, unfinished_only=True) == ()
    assert [(each.outcome, each.finished_at) for each in store.read_audit(CLUSTER, run=RUN)] == [("moved", at(2))]


def test_an_act_is_found_by_its_name_and_counted_by_its_actor(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    entry = AuditEntry(
        cluster=CLUSTER, actor="actions", action="hold-job", target="job 1", run=RUN, plan_id="a/1", begun_at=at(1)
    )
    store.append_audit(entry)
    assert store.find_audited(CLUSTER, ["a/1", "a/2"]) == {"a/1"}
    assert store.find_audited("other", ["a/1"]) == store.find_audited(CLUSTER, []) == frozenset()
    assert store.count_audited(CLUSTER, "actions", at(0), action="hold-job", run=RUN) == 1
    assert store.count_audited(CLUSTER, "actions", at(2)) == store.count_audited(CLUSTER, "alice", at(0)) == 0


def test_the_status_says_since_when_slurm_does_not_answer(store):
    daemon = Daemon(host="admin1", pid=42, version="0.1.0", started_at=at(-5))
    trouble = Unknown(what="squeue", reason="Unable to contact slurm controller")
    store.record_heartbeat(CLUSTER, daemon, at(0))
    store.record_poll(CLUSTER, at(0))
    store.record_poll(CLUSTER, at(1), trouble)
    store.record_poll(CLUSTER, at(2), trouble)
    (status,) = store.read_status()
    assert (status.polled_at, status.poll_failed_at, status.poll_trouble) == (at(0), at(1), trouble)
    assert (status.daemon, status.heartbeat_at) == (daemon, at(0))
    store.record_poll(CLUSTER, at(3))
    (status,) = store.read_status()
    assert (status.polled_at, status.poll_failed_at, status.poll_trouble) == (at(3), None, None)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters()))
def test_any_text_at_all_survives(store, text):
    store.record_poll(CLUSTER, NOON, Unknown(what=text, reason=text[::-1]))
    (status,) = store.read_status()
    assert (status.poll_trouble.what, status.poll_trouble.reason) == (text, text[::-1])
    store.record_poll(CLUSTER, NOON)


@given(st.text(st.characters(codec=None)))
def test_encoded_text_holds_nothing_that_a_database_refuses(text):
    encoded = columns.encode_text(text)
    encoded.encode("utf-8")
    assert "\x00" not in encoded
    assert columns.decode_text(encoded) == text


@pytest.mark.parametrize("extra_writes", range(3))
def test_a_killed_writer_leaves_whole_steps(store, database_url, extra_writes):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    writer = context.Process(target=record_writer.write_until_killed, args=(database_url, ready), daemon=True)
    writer.start()
    assert ready.wait(60)
    reached = len(store.read_tracked(CLUSTER)) + extra_writes
    while len(store.read_tracked(CLUSTER)) < reached:
        assert writer.is_alive()
    os.kill(writer.pid, signal.SIGKILL)
    writer.join(30)
    tracked = store.read_tracked(CLUSTER)
    assert sorted(tracked) == list(range(1, len(tracked) + 1))
    assert all(known.attempt is not None and known.run is not None for known in tracked.values())
    assert len(store.read_histories(CLUSTER, active_only=True)) == len(tracked)
    poll(store, 10_000, *(make_job(each) for each in tracked))


def test_runs_that_ended_are_listed_for_their_user_the_latest_first(store):
    poll(store, 0, make_job(1), make_job(2), make_job(3), make_job(4, user="bob", uid=2000))
    locate(store, 1)
    scan(store, 3, make_checkpoint("a", 1, step=10, epoch=1))
    poll(store, 5, make_job(1, STATES.TIMEOUT, ends_at=at(4)), make_job(3))
    bob = make_job(4, STATES.FAILED, user="bob", uid=2000, ends_at=at(8))
    poll(store, 9, make_job(3, STATES.COMPLETED, ends_at=at(8)), bob)
    poll(store, 10, make_job(1, restart_count=0, submitted_at=at(10), started_at=at(10)))
    locate(store, 1)
    assert RUN not in {run.run for run in store.list_ended_runs("alice", 10)}  # another job goes on with it
    poll(store, 12, make_job(1, STATES.TIMEOUT, submitted_at=at(10), started_at=at(10), ends_at=at(11)))
    latest, *others = store.list_ended_runs("alice", 10)
    assert (latest.run, latest.job_id, latest.attempt_count, latest.ended_at) == (RUN, 1, 2, at(11))
    assert latest.cause is EndCause.TIME_LIMIT
    assert (latest.step, latest.checkpoint_count, latest.checkpoint_bytes) == (10, 1, 10)
    assert [run.job_id for run in others][:1] == [3]
    assert all(run.checkpoint_count == 0 for run in others)
    assert store.list_ended_runs("alice", 1) == (latest,)
    assert [(run.user, run.cause) for run in store.list_ended_runs("bob", 10)] == [("bob", EndCause.FAILURE)]
    assert store.list_ended_runs("nobody", 10) == ()


def test_two_steps_that_write_the_same_row_wait_for_one_another(store):
    """Polls, looks and the heartbeat all write to the cluster's row."""
    store.record_poll(CLUSTER, at(0))
    daemon = Daemon(host="h", pid=1, version="0", started_at=at(0))
    with futures.ThreadPoolExecutor(1) as pool:
        with store._writing() as connection:
            clusters.record_poll(connection, CLUSTER, at(1), None)
            beat = pool.submit(store.record_heartbeat, CLUSTER, daemon, at(1))
            with pytest.raises(futures.TimeoutError):
                beat.result(timeout=0.3)
        beat.result(timeout=20)
    status = store.read_status()[0]
    assert (status.polled_at, status.heartbeat_at) == (at(1), at(1))
