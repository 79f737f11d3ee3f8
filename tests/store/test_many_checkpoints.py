"""What a scan of a large directory found is recorded some thousands of checkpoints at a time, in one transaction."""

import tracemalloc

import pytest

from ckptd.core.model import CheckpointState
from ckptd.core.model.records import ScanRecord
from ckptd.store import history_rows, new_checkpoints
from store.observing import begin_run, scan
from support import recorded
from support.queue_facts import NOON, RUN, make_checkpoint, make_scan, merge

COUNT = 3000
AT_ONCE = 100
ROW_BYTES = 500  # at least, if all rows are in memory

pytestmark = pytest.mark.filled_by(record=begin_run)


def make_many(state=CheckpointState.WRITING):
    return [make_checkpoint(f"step_{number}.pt", number // 1000, step=number, state=state) for number in range(COUNT)]


def peak_bytes(store, result, known):
    """Return how much memory it takes to record a scan, beside what it is about."""
    changes = merge(known, result)
    tracemalloc.start()
    try:
        store.checkpoints.record_scans([ScanRecord(run=RUN, scan=result, changes=changes)])
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_rows_of_new_and_of_changed_checkpoints_are_not_all_in_memory(store, monkeypatch):
    monkeypatch.setattr(new_checkpoints, "AT_ONCE", AT_ONCE)
    scan(store, 1, make_checkpoint("other.pt"))  # statements are compiled
    other = store.checkpoints.read(RUN)
    appeared = peak_bytes(store, make_scan(10, *make_many(), make_checkpoint("other.pt")), other)
    recorded = store.checkpoints.read(RUN)
    complete = make_many(CheckpointState.COMPLETE)
    changed = peak_bytes(store, make_scan(11, *complete, make_checkpoint("other.pt")), recorded)
    assert {each.checkpoint.state for each in store.checkpoints.read(RUN)} == {CheckpointState.COMPLETE}
    assert len(store.checkpoints.read(RUN)) == COUNT + 1
    assert appeared < COUNT * ROW_BYTES
    assert changed < COUNT * ROW_BYTES


def test_what_is_there_by_then_is_left_out_and_the_others_are_recorded(store, monkeypatch):
    monkeypatch.setattr(new_checkpoints, "AT_ONCE", 2)
    names = [make_checkpoint(f"{number}.pt", number) for number in range(7)]
    scan(store, 8, *names[3:5])
    found = make_scan(9, *names)
    written = store.checkpoints.record_scans([ScanRecord(run=RUN, scan=found, changes=merge([], found))])
    assert written == {}, "the record is not what this scan alone leads to"
    assert sorted(each.checkpoint.path.name for each in store.checkpoints.read(RUN)) == [
        f"{number}.pt" for number in range(7)
    ]


def test_progress_of_runs_with_many_checkpoints_is_measured_in_portions(store, monkeypatch):
    count = 2 * history_rows.CHECKPOINT_LIMIT
    others = [RUN._replace(directory=f"/scratch/other{number}") for number in range(3)]
    for number, run in enumerate([RUN, *others]):
        recorded.note_run(store, run, NOON)
        scan(
            store,
            9,
            *(make_checkpoint(f"{step}.pt", step / count, step=step + number) for step in range(count)),
            run=run,
        )
    load, portions = history_rows._load_saved, []

    def note(select, row_ids):
        portions.append(len(row_ids))
        return load(select, row_ids)

    monkeypatch.setattr(history_rows, "_load_saved", note)
    known = dict.fromkeys([RUN, *others])
    together = store.histories.read_changed(known)
    monkeypatch.setattr(history_rows, "MEASURED_COUNT", 2 * count)
    assert store.histories.read_changed(known) == together
    assert portions == [4, 2, 2]
    assert all(each.record.is_truncated for each in together.records.values())
