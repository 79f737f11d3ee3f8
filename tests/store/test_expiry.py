"""What ended long ago leaves the record, and nothing that is still needed."""

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import EndCause, Finding, Flag, NamedLocation, RunKey, Severity
from ckptd.core.model.records import AuditEntry, ExpiryCounts, LocationRecord
from ckptd.store.all_tables import METADATA
from support.migrated import open_record
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job
from support.recorded import locate, note_run, poll, scan

YEAR = 365 * 24 * 60
KEPT = {"alembic_version", "clusters"}


def finish_run(store, job_id=1, run=RUN, minutes=0):
    """Record a run with one job that ended and has left the queue."""
    job = make_job(job_id, started_at=at(minutes - 1), submitted_at=at(minutes - 2))
    poll(store, minutes, job)
    if run is not None:
        locate(store, job_id, run, minutes)
    poll(store, minutes + 9, replace(job, state=STATES.TIMEOUT, ends_at=at(minutes + 8)))
    poll(store, minutes + 20)


def flag_run(store, minutes, *, is_resolved=True):
    finding = Finding(
        rule="at-risk", severity=Severity.WARNING, run=RUN, job_id=1, user="alice", evidence={}, recorded_advice="save"
    )
    (opened,) = store.flags.record(FlagChanges(opened=(Flag(finding=finding, opened_at=at(minutes)),)), at(minutes))
    if is_resolved:
        over = replace(opened, resolved_at=at(minutes + 1))
        store.flags.record(FlagChanges(resolved=(over,)), at(minutes + 1))


def act(store, action, outcome, minutes, act_id="a1"):
    entry = AuditEntry(
        cluster=CLUSTER,
        actor="policy",
        action=action,
        target=f"{RUN.directory}/step-1.pt",
        run=RUN,
        details={"act_id": act_id},
        begun_at=at(minutes),
    )
    number = store.audit.record(entry)
    if outcome is None:
        return
    ended = replace(entry, audit_id=number, outcome=outcome, finished_at=at(minutes))
    if action == "prune":
        first_seen_at = store.checkpoints.read(RUN)[0].first_seen_at
        store.prune_records.finish(ended, first_seen_at, is_pruned=outcome == "moved")
    else:
        store.audit.finish(number, outcome, at(minutes))


def rows_of(store):
    """Return how many rows each table has that has any."""
    with store.database.reading() as connection:
        counts = {
            table.name: connection.scalar(sa.select(sa.func.count()).select_from(table))
            for table in METADATA.sorted_tables
        }
    return {name: count for name, count in counts.items() if count and name not in KEPT}


@pytest.mark.filled_by(record=finish_run)
def test_a_run_that_ended_long_ago_leaves_nothing_behind(store):
    scan(store, 1, make_checkpoint())
    scan(store, 30)
    flag_run(store, 2)
    act(store, "verify", "found whole", 3)
    assert set(rows_of(store)) >= {"runs", "jobs", "attempts", "losses", "checkpoints", "flags", "audit"}
    assert store.expiry.delete_old(CLUSTER, at(20)).run_count == 0
    assert store.expiry.delete_old(CLUSTER, at(YEAR)).run_count == 1
    assert rows_of(store) == {}
    finish_run(store, 2, minutes=YEAR)
    assert len(store.histories.read(CLUSTER, [RUN])[0].attempts) == 1


def on_disk(store):
    scan(store, 1, make_checkpoint())


def in_the_trash(store):
    scan(store, 1, make_checkpoint())
    act(store, "prune", "moved", 2)
    scan(store, 3)


def moved_by_an_act_that_is_not_on_record(store):
    scan(store, 1, make_checkpoint())
    store.prune_records.finish(
        AuditEntry(
            audit_id=10**6,
            cluster=CLUSTER,
            actor="x",
            action="prune",
            target=f"{RUN.directory}/step-1.pt",
            run=RUN,
            begun_at=at(2),
            finished_at=at(2),
            outcome="moved",
        ),
        at(1),
        is_pruned=True,
    )


def not_deleted_in_the_end(store):
    in_the_trash(store)
    act(store, "empty", "failed: the file system is read-only", 9)


def cut_off(store):
    act(store, "verify", None, 3)


def flagged(store):
    flag_run(store, 2, is_resolved=False)


def running_again(store):
    poll(store, 30, make_job(2))
    locate(store, 2, RUN, 30)


def moved_elsewhere(store):
    """Its job ended one attempt here and the next in another directory."""
    first = make_job(3)
    poll(store, 30, first)
    key = store.jobs.read_tracked(CLUSTER)[3].key
    note_run(store, RUN, at(30), jobs=[key])
    poll(store, 31, make_job(3, STATES.PENDING, 1, submitted_at=at(31), started_at=None))
    again = make_job(3, STATES.RUNNING, 1, submitted_at=at(31), started_at=at(32))
    poll(store, 32, again)
    note_run(store, RunKey(CLUSTER, 1000, "/data/alice/other"), at(33), jobs=[key])
    poll(store, 34, replace(again, state=STATES.COMPLETED, ends_at=at(34)))
    poll(store, 60)


@pytest.mark.parametrize(
    "still",
    [
        on_disk,
        in_the_trash,
        moved_by_an_act_that_is_not_on_record,
        not_deleted_in_the_end,
        cut_off,
        flagged,
        running_again,
        moved_elsewhere,
    ],
)
@pytest.mark.filled_by(record=finish_run)
def test_a_run_stays_while_anything_of_it_is_there_or_open(store, still):
    still(store)
    before = rows_of(store)
    assert store.expiry.delete_old(CLUSTER, at(YEAR)).run_count == 0
    assert rows_of(store) == before


@pytest.mark.parametrize(("action", "outcome"), [("empty", "deleted"), ("restore", "restored")])
@pytest.mark.filled_by(record=finish_run)
def test_a_run_leaves_once_its_trash_is_empty(store, action, outcome):
    in_the_trash(store)
    act(store, action, outcome, 9)
    assert store.expiry.delete_old(CLUSTER, at(YEAR)).run_count == 1
    assert rows_of(store) == {}


def test_a_run_without_a_directory_leaves_too_and_another_clusters_stays(store):
    finish_run(store, run=None)
    assert store.expiry.delete_old("beta", at(YEAR)).run_count == 0
    assert store.expiry.delete_old(CLUSTER, at(YEAR)).run_count == 1


@pytest.mark.filled_by(record=finish_run)
def test_old_flags_of_a_run_that_stays_leave_alone(store):
    scan(store, 1, make_checkpoint())
    flag_run(store, 2)
    flag_run(store, YEAR, is_resolved=False)
    done = store.expiry.delete_old(CLUSTER, at(YEAR))
    assert (done.run_count, done.flag_count) == (0, 1)
    assert [flag.resolved_at for flag in store.flags.read(CLUSTER, include_resolved=True)] == [None]


def test_many_leave_some_at_a_time(store, monkeypatch):
    monkeypatch.setattr("ckptd.store.expiry.RUN_COUNT", 3)
    for number in range(1, 8):
        finish_run(store, number, RunKey(CLUSTER, 1000, f"/data/{number}"), minutes=number)
    counts = []
    while True:
        done = store.expiry.delete_old(CLUSTER, at(YEAR))
        counts.append(done.run_count)
        if done.is_all:
            break
    assert counts == [3, 3, 1]


@pytest.mark.filled_by(record=finish_run)
def test_runs_that_stay_are_checked_once_and_keep_no_later_one(store, monkeypatch):
    monkeypatch.setattr("ckptd.store.expiry.RUN_COUNT", 1)
    scan(store, 1, make_checkpoint())
    for number in (2, 3):
        finish_run(store, number, RunKey(CLUSTER, 1000, f"/data/{number}"), minutes=number)
    total, counts = ExpiryCounts(is_all=False), []
    while not total.is_all:
        total += store.expiry.delete_old(CLUSTER, at(YEAR), total.last_run)
        counts.append(total.run_count)
    assert counts == [0, 1, 2, 2]
    assert [each.key for each in store.histories.read(CLUSTER)] == [RUN]


@pytest.mark.filled_by(record=finish_run)
def test_what_left_is_counted_no_more_and_what_stays_is(store):
    finish_run(store, 2, RunKey(CLUSTER, 1000, "/data/2"), minutes=YEAR)
    store.expiry.delete_old(CLUSTER, at(YEAR))
    [tally] = store.restart_state.read_ends(CLUSTER, at(0))
    assert (tally.cause, tally.attempt_count, tally.observed) == (EndCause.TIME_LIMIT, 1, timedelta(minutes=9))


def test_a_row_number_that_is_given_again_is_never_taken_for_the_run_that_had_it(tmp_path):
    """SQLite gives the number of the last row again once that is deleted, and revisions of young runs are alike."""
    store = open_record(f"sqlite:///{tmp_path}/record.db")
    finish_run(store)
    [before] = store.histories.read(CLUSTER)
    store.expiry.delete_old(CLUSTER, at(YEAR))
    other = RunKey(CLUSTER, 1000, "/data/alice/other")
    finish_run(store, 2, other, minutes=YEAR)
    [after] = store.histories.read(CLUSTER)
    assert (before.key, after.key) == (RUN, other)
    assert after.attempts[0].job.job_id == 2
    store.close()


def test_runs_that_nobody_asks_for_any_more_leave_memory(store):
    keys = [RunKey(CLUSTER, 1000, f"/data/{number}") for number in range(3)]
    for number, key in enumerate(keys, 1):
        finish_run(store, number, key, minutes=number)
    store.histories.read(CLUSTER, keys)
    store.histories.read(CLUSTER, keys[:1], forgets_others=True)
    assert {held.history.key for held in store.histories.cache._held.values()} == set(keys[:1])


@pytest.mark.filled_by(record=finish_run)
def test_a_further_location_stays_as_long_as_its_run_and_leaves_after_it(store):
    copies = (NamedLocation("/archive/run"), NamedLocation("/elsewhere", "it is not the job's"))
    where = LocationRecord(jobs=(), run=RUN, user="alice", located_by="comment", copies=copies)
    store.located_runs.record([where], at(1))
    assert rows_of(store)["locations"] == 2
    store.expiry.delete_old(CLUSTER, at(5))  # the run ended later than that
    assert {key.directory for key in store.runs.list_keys()} == {RUN.directory, "/archive/run"}
    for _ in range(2):
        store.expiry.delete_old(CLUSTER, at(YEAR))
    assert rows_of(store) == {}
