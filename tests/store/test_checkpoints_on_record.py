"""Checkpoints and looks at directories as they come back from the record: over both databases."""

from dataclasses import replace

import pytest

from ckptd.core.model import (
    AttemptProgress,
    Certainty,
    CheckpointState,
    FileIdentity,
    ResumeReason,
    Totals,
    Unknown,
)
from ckptd.core.model.records import AuditEntry, ScanRecord
from ckptd.core.runs import progress
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.store import checkpoints, histories, history_rows, resumed_from
from store.observing import HOSTILE, begin_run, begin_saved, history_of, poll, scan
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job, make_scan, merge
from support.recorded import locate


@pytest.mark.filled_by(record=begin_run)
def test_a_checkpoint_comes_back_as_it_was_seen(store):
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
    assert store.checkpoints.read(RUN) == result.appeared
    assert history_of(store).checkpoints == result.appeared
    assert scan(store, 2, wild).is_empty


@pytest.mark.filled_by(record=begin_run)
def test_a_replaced_checkpoint_is_kept_in_the_history(store):
    first = make_checkpoint("checkpoint", step=1)
    second = replace(first, step=2, identities=(FileIdentity(1, 99, 10, 5),), modified_at=at(5))
    scan(store, 1, first)
    scan(store, 6, second, looked=1)
    found = history_of(store).checkpoints
    assert [(each.checkpoint.step, each.deleted_at) for each in found] == [(1, at(6)), (2, None)]
    assert found[1].attempt == (store.jobs.read_tracked(CLUSTER)[1].key, 0)


@pytest.mark.filled_by(record=begin_run)
def test_of_names_that_change_with_every_look_only_the_latest_stay_on_record(store, monkeypatch):
    monkeypatch.setattr(checkpoints, "GONE_COUNT", 3)
    scan(store, 1, make_checkpoint("pruned.pt"), make_checkpoint("stays.pt"))
    pruned = store.checkpoints.read(RUN)[0]
    act = AuditEntry(
        cluster=CLUSTER, actor="x", action="prune", target=str(pruned.checkpoint.path), run=RUN, begun_at=at(1)
    )
    act = replace(act, audit_id=store.audit.record(act), outcome="done", finished_at=at(1))
    store.prune_records.finish(act, pruned.first_seen_at, is_pruned=True)
    for minute in range(2, 9):
        scan(store, minute, make_checkpoint("stays.pt"), make_checkpoint(f"{minute}.pt"))
    names = sorted(each.checkpoint.path.name for each in store.checkpoints.read(RUN))
    assert names == ["5.pt", "6.pt", "7.pt", "8.pt", "pruned.pt", "stays.pt"]


@pytest.mark.filled_by(record=begin_run)
def test_a_run_with_very_many_deleted_checkpoints_forgets_many_of_them_at_once(store, monkeypatch):
    monkeypatch.setattr(checkpoints, "GONE_COUNT", 100)
    scan(store, 1, *(make_checkpoint(f"{number}.pt") for number in range(104)))
    scan(store, 2)
    anew_count = 0
    for minute in range(3, 30):
        written = store.checkpoints.record_scans([make_look(store, minute, make_checkpoint(f"last-{minute}.pt"))])
        anew_count += RUN not in written
    assert 1 <= anew_count <= 27 / 5
    with store.checkpoints.database.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM checkpoints").scalar_one() <= 106


def begin_action(store, action, minutes):
    """Record the intent to move the one checkpoint on record to the trash, or back; return what ends it."""
    known = store.checkpoints.read(RUN)[0]
    target = str(known.checkpoint.path)
    entry = AuditEntry(cluster=CLUSTER, actor="x", action=action, target=target, run=RUN, begun_at=at(minutes))
    entry = replace(entry, audit_id=store.audit.record(entry), outcome="done", finished_at=at(minutes))

    def finish():
        store.prune_records.finish(entry, known.first_seen_at, is_pruned=action == "prune")

    return finish


def make_look(store, minutes, *found):
    """A scan that has read the record and the directory, and records later what it came to."""
    seen = make_scan(minutes, *found)
    return ScanRecord(run=RUN, scan=seen, changes=merge(store.checkpoints.read(RUN), seen))


def list_present(store):
    return [known for known in store.checkpoints.read(RUN) if known.deleted_at is None]


@pytest.mark.parametrize("is_scan_first", [True, False])
@pytest.mark.filled_by(record=begin_saved)
def test_a_scan_beside_a_restore_does_not_record_the_checkpoint_twice(store, is_scan_first):
    begin_action(store, "prune", 2)()
    finish_restore = begin_action(store, "restore", 3)
    look = make_look(store, 4, make_checkpoint())  # the file is back, and the record says that it is in the trash
    for step in [0, 1] if is_scan_first else [1, 0]:
        (lambda: store.checkpoints.record_scans([look]), finish_restore)[step]()
    (known,) = list_present(store)
    assert (known.first_seen_at, known.pruned_at) == (at(1), None)
    history = store.prune_records.read(CLUSTER, [RUN])[0].history
    assert len(history.scan.checkpoints) == len({each.path for each in history.scan.checkpoints}) == 1


@pytest.mark.filled_by(record=begin_saved)
def test_a_scan_that_began_before_a_removal_does_not_bring_the_checkpoint_back(store):
    look = make_look(store, 2, make_checkpoint(is_best=True))
    begin_action(store, "prune", 3)()
    store.checkpoints.record_scans([look])
    (known,) = store.checkpoints.read(RUN)
    assert (known.deleted_at, known.pruned_at, known.checkpoint.is_best) == (at(3), at(3), True)


@pytest.mark.filled_by(record=begin_saved)
def test_a_verdict_on_a_checkpoint_that_was_deleted_meanwhile_does_not_bring_it_back(store):
    (known,) = store.checkpoints.read(RUN)
    scan(store, 2)
    verified = progress.CheckpointChanges(changed=(replace(known, verified_full_at=at(3)),))
    store.checkpoints.record_changes(RUN, verified)
    (known,) = store.checkpoints.read(RUN)
    assert (known.deleted_at, known.verified_full_at) == (at(2), at(3))


@pytest.mark.filled_by(record=begin_run)
def test_two_processes_that_scan_at_once_record_a_new_checkpoint_once(store):
    looks = [make_look(store, minute, make_checkpoint()) for minute in (1, 2)]
    written = store.checkpoints.record_scans(looks[:1])
    assert {run: each.after for run, each in written.items()} == store.runs.read_revisions_of([RUN])
    assert store.checkpoints.record_scans(looks[1:]) == {}  # what it found is not on record
    assert [known.first_seen_at for known in list_present(store)] == [at(1)]


def candidates_of(attempt):
    return [each.path.rpartition("/")[2] for each in attempt.resumed_from.candidates]


STEPS = [make_checkpoint(f"step-{n}.pt", n, step=n) for n in (1, 2, 3)]


def restart(store):
    """A job that saved steps 1 to 3, one a minute, and was requeued; it runs again since minute 6."""
    poll(store, 0, make_job(1, started_at=at(0)))
    locate(store, 1)
    scan(store, 3, *STEPS)
    poll(store, 5, make_job(1, STATES.PENDING, 1, submitted_at=at(4)))
    poll(store, 7, make_job(1, STATES.RUNNING, 1, submitted_at=at(4), started_at=at(6)))


@pytest.mark.filled_by(record=restart)
def test_until_a_restart_has_saved_nobody_claims_what_it_resumed_from(store):
    first, second = history_of(store).attempts
    assert (first.resumed_from.certainty, first.resumed_from.is_fresh) == (Certainty.INFERRED, True)
    assert (second.resumed_from.certainty, second.resumed_from.path) == (Certainty.UNKNOWN, None)
    assert candidates_of(second) == ["step-1.pt", "step-2.pt", "step-3.pt"]


@pytest.mark.parametrize(("saved", "loaded"), [(4, "step-3.pt"), (3, "step-2.pt"), (1, None)])
@pytest.mark.filled_by(record=restart)
def test_the_first_checkpoint_of_a_restart_tells_what_it_resumed_from(store, saved, loaded):
    revision = history_of(store)
    again = make_checkpoint(f"step-{saved}.pt", 7, step=saved, identities=(FileIdentity(1, 900, 10, 9),))
    scan(store, 8, *(each for each in STEPS if each.path != again.path), again, looked=6.5)
    found = history_of(store).attempts[-1].resumed_from
    assert found.certainty is Certainty.INFERRED
    assert found.path == (loaded and f"/data/alice/run/{loaded}")
    assert revision.attempts[-1].resumed_from != found


@pytest.mark.filled_by(record=restart)
def test_what_is_known_after_some_checkpoints_is_not_asked_again(store, monkeypatch):
    later = [make_checkpoint(f"step-{n}.pt", n + 3, step=n) for n in (4, 5, 6)]
    scan(store, 9.5, *STEPS, *later, looked=6.5)
    found = history_of(store).attempts[-1].resumed_from
    assert found.path == "/data/alice/run/step-3.pt"
    monkeypatch.setattr(resumed_from, "find_resume", lambda *_, **__: pytest.fail("asked again"))
    scan(store, 11, *STEPS, *later, make_checkpoint("step-7.pt", 10, step=7), looked=9.5)
    assert history_of(store).attempts[-1].resumed_from == found


def test_that_nothing_was_there_to_resume_from_is_known_with_the_first_scan(store):
    poll(store, 0, make_job(1, started_at=at(0)))
    locate(store, 1)
    assert history_of(store).attempts[0].resumed_from is None
    scan(store, 1)
    assert history_of(store).attempts[0].resumed_from.reason is ResumeReason.EMPTY
    poll(store, 5, make_job(1, STATES.PENDING, 1, submitted_at=at(4)))
    poll(store, 7, make_job(1, STATES.RUNNING, 1, submitted_at=at(4), started_at=at(6)))
    assert history_of(store).attempts[1].resumed_from is None
    scan(store, 8)
    assert history_of(store).attempts[1].resumed_from.reason is ResumeReason.EMPTY


def test_of_many_jobs_at_once_in_one_directory_the_latest_are_asked_about(store, monkeypatch):
    monkeypatch.setattr(resumed_from, "PENDING_COUNT", 1)
    poll(store, 5, make_job(1, started_at=at(3)), make_job(2, started_at=at(4)))
    for number in (1, 2):
        locate(store, number)
    scan(store, 6, make_checkpoint("step-1.pt", 1))
    first, second = history_of(store).attempts
    assert (first.resumed_from, candidates_of(second)) == (None, ["step-1.pt"])


@pytest.mark.filled_by(record=begin_run)
def test_what_a_restart_could_resume_from_may_be_found_only_after_it(store):
    identities = (FileIdentity(1, 7, 10, 1), FileIdentity(1, 8, 10, 1))
    first = make_checkpoint("step-1.pt", 1)
    second = make_checkpoint("step-2.pt", 5, files=("m", "n"), identities=identities)
    scan(store, 3, first)
    poll(store, 7, make_job(1, STATES.RUNNING, 1, submitted_at=at(6), started_at=at(6)))
    assert candidates_of(history_of(store).attempts[-1]) == ["step-1.pt"]
    scan(store, 8, first, second)
    assert candidates_of(history_of(store).attempts[-1]) == ["step-1.pt", "step-2.pt"]


@pytest.mark.filled_by(record=begin_run)
def test_a_look_that_failed_is_unknown_until_one_succeeds(store):
    assert history_of(store).scan is None
    seen = scan(store, 1, make_checkpoint(), leftovers=(HOSTILE,), free_bytes=10, total_bytes=2**62)
    trouble = Unknown(what=RUN.directory, reason="Stale file handle")
    store.checkpoints.record_scans([ScanRecord(run=RUN, scan=trouble)])
    history = history_of(store)
    assert (history.scan, history.checkpoints) == (trouble, seen.appeared)
    partial = make_scan(3, problems=(Unknown(what=HOSTILE, reason="denied"),))
    store.checkpoints.record_scans([ScanRecord(run=RUN, scan=partial)])
    assert history_of(store).scan.problems == partial.problems
    store.checkpoints.record_scans([ScanRecord(run=RUN, scan=make_scan(4))])
    assert (history_of(store).scan.is_whole, history_of(store).scan.scanned_at) == (True, at(4))


@pytest.mark.filled_by(record=begin_saved)
def test_an_unchanged_directory_only_moves_the_time_of_its_look(store):
    store.checkpoints.record_scans([ScanRecord(run=RUN, scan=make_scan(9))])
    history = history_of(store)
    assert history.scan.scanned_at == at(9)
    assert len(history.scan.checkpoints) == 1
    assert store.clusters.read_status()[0].scanned_at == at(9)


@pytest.mark.filled_by(record=begin_saved)
def test_a_pin_set_between_reading_and_recording_is_kept(store):
    before = store.checkpoints.read(RUN)
    store.checkpoints.set_pinned(RUN, "/data/alice/run/step-1.pt", is_pinned=True)
    seen = make_scan(2, make_checkpoint(is_best=True))
    store.checkpoints.record_scans([ScanRecord(run=RUN, changes=merge(before, seen), scan=seen)])
    assert store.checkpoints.read(RUN)[0].is_pinned


@pytest.mark.filled_by(record=begin_run)
def test_a_history_holds_the_newest_checkpoints_and_the_record_all(store, monkeypatch):
    monkeypatch.setattr(history_rows, "CHECKPOINT_LIMIT", 2)
    found = [make_checkpoint(f"step-{number}.pt", number) for number in range(5)]
    scan(store, 6, *found)
    assert [each.checkpoint.path.name for each in history_of(store).checkpoints] == ["step-3.pt", "step-4.pt"]
    assert len(store.checkpoints.read(RUN)) == 5


@pytest.mark.filled_by(record=begin_run)
def test_a_history_holds_the_furthest_checkpoint_however_old(store, monkeypatch):
    monkeypatch.setattr(history_rows, "CHECKPOINT_LIMIT", 2)
    found = [make_checkpoint(f"c{number}.pt", number, step=10 - number) for number in range(5)]
    scan(store, 6, *found)
    assert [each.checkpoint.path.name for each in history_of(store).checkpoints] == ["c0.pt", "c3.pt", "c4.pt"]
    assert history_of(store).is_truncated


@pytest.mark.filled_by(record=begin_run)
def test_failed_saves_hide_none_of_the_complete_checkpoints_and_all_are_counted(store, monkeypatch):
    monkeypatch.setattr(history_rows, "CHECKPOINT_LIMIT", 2)
    good = [make_checkpoint(f"step-{number}.pt", number, step=number) for number in range(1, 4)]
    failed = [
        make_checkpoint(f"step-{number}.pt", number, step=number, state=CheckpointState.DAMAGED)
        for number in range(4, 9)
    ]
    scan(store, 4, *good)
    scan(store, 10, *good, *failed)
    history = history_of(store)
    names = [each.checkpoint.path.name for each in history.checkpoints]
    assert names == ["step-2.pt", "step-3.pt", "step-7.pt", "step-8.pt"]
    assert history.totals == Totals(checkpoint_count=8, size_bytes=80, damaged_since_good=5)


@pytest.mark.filled_by(record=begin_run)
def test_a_history_holds_what_flags_are_about_as_long_as_it_is_there(store, monkeypatch):
    monkeypatch.setattr(history_rows, "CHECKPOINT_LIMIT", 3)
    odd = (
        make_checkpoint("unsafe.pt", 1, unsafe=("os.system",)),
        make_checkpoint("foreign.pt", 1, owner_uids=frozenset({0, RUN.uid})),
        make_checkpoint("left.tmp", 1, state=CheckpointState.WRITING),
    )
    later = [make_checkpoint(f"step-{number}.pt", number) for number in range(2, 7)]

    def names():
        return {each.checkpoint.path.name for each in history_of(store).checkpoints}

    scan(store, 2, *odd)
    scan(store, 7, *odd, *later)
    assert names() == {"unsafe.pt", "foreign.pt", "left.tmp", "step-4.pt", "step-5.pt", "step-6.pt"}
    scan(store, 8, *later)
    assert names() == {"step-4.pt", "step-5.pt", "step-6.pt"}


@pytest.mark.filled_by(record=begin_run)
def test_a_history_tells_how_far_each_attempt_got_by_all_of_its_saves(store, monkeypatch):
    monkeypatch.setattr(history_rows, "CHECKPOINT_LIMIT", 2)
    scan(store, 6, *(make_checkpoint(f"c{number}.pt", number, step=number) for number in range(1, 6)))
    assert history_of(store).reaches == (AttemptProgress(save_count=5, steps=(1, 5), epochs=None),)
    monkeypatch.setattr(history_rows, "CHECKPOINT_LIMIT", 9)
    store.histories.cache = histories.HistoryCache()
    assert history_of(store).reaches is None


@pytest.mark.filled_by(record=begin_run)
def test_a_rhythm_is_measured_when_a_history_is_read_and_again_when_it_has_changed(store):
    saves = [make_checkpoint(name, minute, step=minute) for name, minute in (("a", 10), ("b", 20), ("c", 31))]
    scan(store, 21, *saves[:2])
    first = history_of(store)
    assert first.rhythm == measure_rhythm(replace(first, rhythm=None))
    assert history_of(store).rhythm is first.rhythm
    scan(store, 32, *saves)
    second = history_of(store)
    assert second.rhythm == measure_rhythm(replace(second, rhythm=None))
    assert (first.rhythm.save_count, second.rhythm.save_count) == (2, 3)
