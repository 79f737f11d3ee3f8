"""Checkpoints on record are passed on to a scan, and compared with what it found, without being decoded."""

import json
import pickle
from dataclasses import replace

import pytest

from ckptd.checkpoints.agent.answer_pieces import PackedItems
from ckptd.core.model import CheckpointState, Grouping, Level, Role
from ckptd.core.model.records import ScanRecord
from ckptd.core.rows.sent_checkpoints import decode_contents
from ckptd.core.rows.stored_checkpoints import RowContext
from ckptd.steps import known_checkpoints
from ckptd.steps.known_checkpoints import KnownCheckpoints
from ckptd.store import recorded_rows
from support import recorded
from support.queue_facts import RUN, at, make_checkpoint, make_job, make_scan, merge

FOUND = [
    make_checkpoint("plain.pt", 1, step=3, epoch=2),
    make_checkpoint("deep/er-7.pt", 1, role=Role.STATE, epoch=0.5, name_epoch=0.5, content_step=4),
    make_checkpoint("\\odd\udcff\n.pt", 1, unsafe=("os.system",), owner_uids=frozenset({1000, 7})),
    make_checkpoint("best-8.pt", 1, metrics={"loss": 0.25}, is_best=True, reason="why: \udcff", size_bytes=2**62),
    make_checkpoint("step-9.pt", 1, grouping=Grouping(series="step-#.pt", progress=(9,), evidence="x")),
    make_checkpoint("whole.pt", 1, level=Level.FULL),
    make_checkpoint("cut.pt", 1, state=CheckpointState.DAMAGED, reason="cut"),
    make_checkpoint("begun.pt", 1, state=CheckpointState.WRITING),
    make_checkpoint("ahead.pt", 60),  # by a clock that is ahead
]
SURE = {"plain.pt", "deep/er-7.pt", "\\odd\udcff\n.pt", "best-8.pt", "step-9.pt"}


def begin_run(store):
    recorded.poll(store, 0, make_job(1))
    recorded.locate(store, 1)
    scan = make_scan(2, *FOUND)
    store.checkpoints.record_scans([ScanRecord(run=RUN, scan=scan, changes=merge([], scan))])


pytestmark = pytest.mark.filled_by(record=begin_run)


@pytest.fixture
def rows(store):
    return store.checkpoints.read_present([RUN])[RUN]


def name_of(recorded_one):
    return str(recorded_one.checkpoint.path).removeprefix(f"{RUN.directory}/")


def test_a_scan_is_told_what_is_on_record(rows):
    sent = json.loads(json.dumps([*rows.encode(range(len(rows)))]))
    told = decode_contents(sent, RowContext(RUN.directory, RUN.uid))
    assert told == [each.checkpoint for each in rows]
    assert {each.path: each for each in told} == {each.path: each for each in FOUND}


def test_rows_are_the_same_after_they_were_packed(store, rows):
    rows.pack()
    assert len(rows) == len(FOUND)
    rows.pack()
    packed = pickle.dumps([rows._packed])
    assert rows._unpacked is None
    assert list(rows) == list(store.checkpoints.read(RUN))
    assert rows.list_unsettled([]) == list(range(len(FOUND)))
    assert len(packed) < len(pickle.dumps(rows._unpacked))


def test_what_is_sent_of_a_large_directory_is_packed_until_then(rows, monkeypatch):
    plain = KnownCheckpoints(rows, ["/nowhere"]).encode()
    monkeypatch.setattr(known_checkpoints, "MAX_ENTRIES", len(FOUND) - 1)
    known = KnownCheckpoints(rows)
    sent = known.encode()
    assert isinstance(sent, PackedItems)
    assert sent.expected_count == len(FOUND)
    assert [*sent] == json.loads(json.dumps(plain))
    assert rows._unpacked is None
    whole = known.complete(replace(make_scan(3), unchanged=(0, 2)))
    assert whole.checkpoints == (rows[0].checkpoint, rows[2].checkpoint)


def test_a_scan_may_change_what_it_did_not_find_and_what_is_not_sure(store, rows):
    everything = rows.list_unsettled([])
    assert everything == list(range(len(FOUND)))
    unsettled = rows.list_unsettled(everything)
    assert {name_of(rows[number]) for number in everything if number not in unsettled} == SURE
    assert list(rows) == list(store.checkpoints.read(RUN))


def test_sums_and_saves_are_those_of_the_decoded_checkpoints(rows, monkeypatch):
    decoded = list(rows)
    looked_at = rows[0]
    names = {recorded_rows.identify(looked_at)}
    monkeypatch.setattr(recorded_rows, "checkpoint_from_row", None)
    assert list(rows.list_sizes(without=names)) == [
        (each.checkpoint.state, each.checkpoint.modified_at, each.checkpoint.size_bytes) for each in decoded[1:]
    ]
    assert list(rows.list_saves()) == [(each.attempt, each.completed_at) for each in decoded if each.completed_at]


def test_of_one_that_is_on_record_twice_all_are_compared(store, rows):
    twice = rows._rows[0]
    doubled = recorded_rows.RecordedRows([*rows._rows, twice], RowContext(RUN.directory, RUN.uid), rows._attempts)
    assert doubled.list_unsettled(range(len(doubled))) == list(range(len(doubled)))
    assert doubled[0].first_seen_at >= at(2)
