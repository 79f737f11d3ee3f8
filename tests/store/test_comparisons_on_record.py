"""Comparisons of copies as they come back from the record: over both databases."""

from dataclasses import replace

import pytest

from ckptd.core.model import ContentComparison
from ckptd.core.model.records import ScanRecord
from ckptd.store import history_rows
from store.observing import HOSTILE, begin_run, begin_saved, history_of, scan
from support.queue_facts import RUN, at, make_checkpoint, make_scan, merge

COMPARISON = ContentComparison(at(3), HOSTILE, "0" * 32, "1" * 32, HOSTILE, is_by_owner=True)


@pytest.mark.filled_by(record=begin_saved)
def test_a_comparison_comes_back_and_no_scan_overwrites_it(store):
    (before,) = store.checkpoints.read(RUN)
    assert before.comparisons == ()
    revision = store.runs.read_revisions_of([RUN])[RUN]
    assert store.comparisons.add(RUN, before, COMPARISON)
    assert store.runs.read_revisions_of([RUN])[RUN] > revision
    seen = make_scan(2, make_checkpoint(is_best=True))
    store.checkpoints.record_scans([ScanRecord(run=RUN, changes=merge([before], seen), scan=seen)])
    (after,) = store.checkpoints.read(RUN)
    assert (after.checkpoint.is_best, after.comparisons) == (True, (COMPARISON,))
    other, again = COMPARISON._replace(original="/other"), COMPARISON._replace(differing_file=None)
    for found in (other, again):
        store.comparisons.add(RUN, before, found)
    assert store.checkpoints.read(RUN)[0].comparisons == (other, again)


@pytest.mark.filled_by(record=begin_saved)
def test_a_comparison_of_a_checkpoint_that_is_not_on_record_changes_nothing(store):
    (known,) = store.checkpoints.read(RUN)
    assert not store.comparisons.add(RUN, replace(known, first_seen_at=at(99)), COMPARISON)
    assert store.checkpoints.read(RUN) == (known,)


@pytest.mark.filled_by(record=begin_run)
def test_a_history_holds_what_was_compared_however_old(store, monkeypatch):
    monkeypatch.setattr(history_rows, "CHECKPOINT_LIMIT", 3)
    everything = [make_checkpoint(f"step-{number}.pt", number) for number in range(1, 7)]
    scan(store, 7, *everything)
    first = next(each for each in store.checkpoints.read(RUN) if each.checkpoint.path.name == "step-1.pt")
    store.comparisons.add(RUN, first, COMPARISON)
    for now in (8, 9):  # read from the database, and followed from the record before
        found = {each.checkpoint.path.name: each.comparisons for each in history_of(store).checkpoints}
        assert found["step-1.pt"] == (COMPARISON,)
        scan(store, now, *everything, make_checkpoint(f"step-{now}.pt", now))


@pytest.mark.filled_by(record=begin_run)
def test_any_number_of_comparisons_hides_none_of_the_checkpoints_that_flags_are_about(store, monkeypatch):
    monkeypatch.setattr(history_rows, "CHECKPOINT_LIMIT", 3)
    unsafe = make_checkpoint("unsafe.pt", 1, unsafe=("os.system",))
    compared = [make_checkpoint(f"step-{number}.pt", number) for number in range(2, 6)]
    scan(store, 1, unsafe)
    scan(store, 6, unsafe, *compared)
    for each in store.checkpoints.read(RUN)[1:]:
        store.comparisons.add(RUN, each, COMPARISON)
    for now in (7, 8, 9, 10):  # read from the database, and followed from the record before
        assert "unsafe.pt" in {each.checkpoint.path.name for each in history_of(store).checkpoints}
        later = [make_checkpoint(f"step-{number}.pt", number) for number in range(7, now + 1)]
        scan(store, now, unsafe, *compared, *later)
