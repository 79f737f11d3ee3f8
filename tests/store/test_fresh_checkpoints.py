"""A history from checkpoints that were just recorded is the one that the database gives."""

import contextlib
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.core.model import AttemptProgress, CheckpointState, FileIdentity, Role
from ckptd.core.model.records import ScanRecord
from ckptd.core.runs.progress import CheckpointChanges
from ckptd.store.engine import select_through
from ckptd.store.fresh_checkpoints import FreshCheckpoints, ScanUpdate, ShownCheckpoints, follow
from ckptd.store.history_rows import CHECKPOINT_LIMIT, load_records
from ckptd.store.recorded_rows import NO_ROWS, RecordedRows
from support import recorded
from support.examples import FACTOR
from support.queue_facts import RUN, at, make_checkpoint, make_job, make_scan, merge


def begin_run(store):
    recorded.poll(store, 0, make_job(1))
    recorded.locate(store, 1)


pytestmark = pytest.mark.filled_by(record=begin_run)


def make_any(luck, number):
    """One of many kinds of checkpoints; times and progress often repeat."""
    return make_checkpoint(
        f"step-{number}.pt",
        luck.randrange(-40, 3),
        step=luck.choice([None, luck.randrange(5)]),
        epoch=luck.choice([None, 0.5, luck.randrange(5)]),
        state=luck.choices(list(CheckpointState), [2, 2, *[16] * (len(CheckpointState) - 2)])[0],
        role=luck.choice([Role.STATE, Role.DATA, Role.WEIGHTS]),
        size_bytes=luck.choice([10, 2**62]),
        unsafe=luck.choice([(), (), (), ("os.system",)]),
        owner_uids=frozenset(luck.choice([[1000], [1000], [], [1000, 7]])),
        reason=luck.choice([None, "why"]),
    )


def record(store, scan, changes, there=NO_ROWS, deleted=(), read_at=None):
    """Record a scan as the daemon does; return what is kept of it for the next decision."""
    written = store.checkpoints.record_scans([ScanRecord(run=RUN, scan=scan, changes=changes)])
    if RUN not in written or ((there or deleted) and read_at != written[RUN].before):
        return None
    before = written[RUN].before if there or deleted else None
    return ScanUpdate(before, written[RUN].after, there, (*there, *deleted), changes)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 90, 200])
@pytest.mark.parametrize("seed", range(FACTOR))
def test_the_history_is_that_of_the_database(store, count, seed):
    luck = random.Random(f"{count} {seed}")
    attempts = read(store).attempts
    changes = merge([], make_scan(2, *(make_any(luck, number) for number in range(count))), attempts)
    appeared = tuple(replace(each, first_seen_at=at(luck.randrange(2, 4))) for each in changes.appeared)
    changes = replace(changes, appeared=appeared)
    update = record(store, make_scan(2), changes)
    expected = read(store)
    if count:
        store.histories.fresh.keep(RUN, update)
    assert read(store) == expected
    assert store.histories.fresh.take(RUN, update.after if update else 0) is None


def read(store):
    return store.histories.read_changed({RUN: None}).records[RUN].record


class Job:
    """A job that saves, deletes and damages checkpoints, and puts back what it deleted."""

    def __init__(self, seed):
        self._luck = random.Random(seed)
        self._there = {}
        self._shelf = []
        self._count = 0
        self._keeps = (None, 5, 40, 100)[seed % 4]  # None: nothing is ever deleted

    def save_until(self, minute):
        """Return what a scan finds then."""
        luck = self._luck
        for _ in range(luck.choice([0, 1, 1, 2, 9, 40])):
            self._save(minute)
        if self._keeps is not None:
            count = max(len(self._there) - self._keeps, luck.randrange(2) if self._there else 0)
            for name in luck.sample(sorted(self._there), count):
                self._shelf.append(self._there.pop(name))
        if self._shelf and luck.random() < 0.3:
            again = luck.choice(self._shelf)
            self._there.setdefault(again.path.name, again)
        if self._there and luck.random() < 0.4:
            name = luck.choice(sorted(self._there))
            state = luck.choice(list(CheckpointState))
            self._there[name] = replace(self._there[name], state=state, reason=luck.choice([None, "why"]))
        return make_scan(minute, *self._there.values())

    def _save(self, minute):
        luck = self._luck
        self._count += 1  # no two have the same time, so that their order is that of the database
        name = "last.pt" if self._keeps is not None and luck.random() < 0.2 else f"step-{self._count}.pt"
        found = replace(
            make_any(luck, self._count),
            path=PurePosixPath(RUN.directory, name),
            modified_at=at(minute - 1) + timedelta(milliseconds=self._count),
            step=luck.choice([None, self._count, self._count, 3 * self._count]),
            epoch=None,
            size_bytes=10,
        )
        self._there[name] = replace(found, identities=(FileIdentity(1, self._count, 10, self._count),))


@pytest.mark.parametrize("seed", range(FACTOR + 1))
def test_a_history_that_follows_from_the_one_before_is_that_of_the_database(store, seed):
    job, known, follow_count = Job(seed), None, 0
    for minute in range(2, 42):
        if minute in {20, 40}:
            recorded.poll(store, minute, make_job(1, restart_count=minute // 20, started_at=at(minute)))
            known = known and with_shown(read_revised(store))
        scan = job.save_until(minute)
        read_at = store.runs.read_revisions_of([RUN])[RUN]
        present = store.checkpoints.read_present([RUN])[RUN]
        alike = store.checkpoints.read_deleted_alike({RUN: scan.checkpoints})[RUN]
        changes = merge((*present, *alike), scan, read(store).attempts)
        update = record(store, scan, changes, present, alike, read_at)
        expected = read_revised(store)
        if update is not None:
            store.histories.fresh.keep(RUN, update)
            follow_count += (
                known is not None and follow(known.record, update, CHECKPOINT_LIMIT, known.shown) is not None
            )
        if known is not None and known.revision != expected.revision:
            assert read_revised(store, known) == expected
        known = with_shown(expected)
    assert follow_count > 20
    assert known.record.is_truncated


def with_shown(revised):
    return revised._replace(shown=ShownCheckpoints.of(revised.record.checkpoints))


def begin_long(store, **values):
    """Record a run with more checkpoints than a history has."""
    begin_run(store)
    found = [make_checkpoint(f"step-{number}.pt", number / 100, **({"step": number} | values)) for number in range(80)]
    scan = make_scan(2, *found)
    record(store, scan, merge([], scan, read(store).attempts))


def begin_long_of_states(store):
    begin_long(store, role=Role.STATE)


def begin_long_of_data(store):
    begin_long(store, role=Role.DATA)


def read_long(store):
    """Return the record of the run, and what is there."""
    return with_shown(read_revised(store)), store.checkpoints.read_present([RUN])[RUN]


@pytest.mark.filled_by(record=begin_long_of_states)
@pytest.mark.parametrize(
    ("name", "suffices"),
    [("deleted", True), ("damaged", True), ("incomplete", False), ("lower", False), ("data", False), ("older", False)],
)
def test_what_ranks_lower_than_before_lets_others_in_that_only_the_database_knows(store, name, suffices):
    known, present = read_long(store)
    last = present[-1]
    change = {
        "deleted": {"deleted_at": at(3)},
        "damaged": {"checkpoint": replace(last.checkpoint, state=CheckpointState.DAMAGED)},
        "incomplete": {"completed_at": None},
        "lower": {"checkpoint": replace(last.checkpoint, step=1)},
        "data": {"checkpoint": replace(last.checkpoint, role=Role.DATA)},
        "older": {"checkpoint": replace(last.checkpoint, modified_at=at(-1))},
    }[name]
    update = ScanUpdate(
        known.revision, known.revision + 1, present, (last,), CheckpointChanges(changed=(replace(last, **change),))
    )
    assert (follow(known.record, update, CHECKPOINT_LIMIT, known.shown) is not None) is suffices


@pytest.mark.filled_by(record=begin_long_of_states)
def test_a_save_in_place_of_the_oldest_is_followed_without_looking_at_the_others(store, monkeypatch):
    known, present = read_long(store)
    oldest, newest = present[0], present[-1]
    monkeypatch.setattr(RecordedRows, "__getitem__", None)
    changes = merge([], make_scan(3, make_checkpoint("new.pt", 3, role=Role.STATE, step=90)))
    selected = None
    for gone, suffices in ((oldest, True), (newest, False)):
        deleted = replace(changes, gone=(replace(gone, deleted_at=at(3)),))
        update = ScanUpdate(known.revision, known.revision + 1, present, (gone,), deleted)
        with contextlib.nullcontext() if suffices else pytest.raises(TypeError):
            selected = follow(known.record, update, CHECKPOINT_LIMIT, known.shown)
    assert (selected.totals.checkpoint_count, selected.checkpoints[0]) == (80, changes.appeared[0])


@pytest.mark.filled_by(record=begin_long_of_data)
def test_the_first_state_beside_data_makes_all_that_counted_before_count_no_more(store):
    known, present = read_long(store)
    [state] = merge([], make_scan(3, make_checkpoint("state.pt", 3, role=Role.STATE, step=1))).appeared
    update = ScanUpdate(known.revision, known.revision + 1, present, (), CheckpointChanges(appeared=(state,)))
    assert follow(known.record, update, CHECKPOINT_LIMIT, known.shown) is None


@pytest.mark.filled_by(record=begin_long)
def test_what_counted_for_attempts_that_have_ended_since_is_counted_again(store):
    known, present = read_long(store)
    [attempt] = known.record.attempts
    another = replace(
        known.record, attempts=(replace(attempt, ended_at=at(1)),), reaches=(AttemptProgress(0, None, None),)
    )
    update = ScanUpdate(known.revision, known.revision + 1, present, (), CheckpointChanges())
    selected = follow(another, update, CHECKPOINT_LIMIT, known.shown)
    with store.checkpoints.database.reading() as connection:
        row_id = known.row_id
        found = load_records(select_through(connection), [row_id], is_whole=False, selected={row_id: selected})
    assert found[row_id][1].reaches == known.record.reaches


def read_revised(store, known=None):
    return store.histories.read_changed({RUN: known}).records[RUN]


def test_what_another_process_changed_meanwhile_is_read(store):
    scan = make_scan(2, make_checkpoint())
    record(store, scan, merge([], scan))
    read_at = store.runs.read_revisions_of([RUN])[RUN]
    present = store.checkpoints.read_present([RUN])[RUN]
    store.checkpoints.set_pinned(RUN, f"{RUN.directory}/step-1.pt", is_pinned=True)
    later = make_scan(3, make_checkpoint(), make_checkpoint("step-2.pt"))
    assert record(store, later, merge(present, later), present, (), read_at) is None


def test_checkpoints_of_another_revision_are_not_used(store):
    changes = merge([], make_scan(2, make_checkpoint()))
    update = record(store, make_scan(2), changes)
    store.histories.fresh.keep(RUN, update)
    store.checkpoints.set_pinned(RUN, f"{RUN.directory}/step-1.pt", is_pinned=True)
    [found] = read(store).checkpoints
    assert found.is_pinned


def test_the_oldest_give_way_where_there_is_no_room():
    changes = merge([], make_scan(2, make_checkpoint("a"), make_checkpoint("b")))
    update = ScanUpdate(None, 1, NO_ROWS, (), changes)
    fresh = FreshCheckpoints(kept_count=8)
    runs = [RUN._replace(directory=f"/data/{number}") for number in range(3)]
    was_filling = []
    for run in runs:
        was_filling.append(fresh.is_filling)
        fresh.keep(run, update)
    assert (was_filling, fresh.is_filling) == ([False, False, True], True)
    assert [fresh.take(run, 1) for run in runs] == [None, update, update]
    assert not fresh.is_filling


def test_a_directory_beyond_all_room_leaves_the_others_in_memory():
    """100,000 checkpoints in one directory, each save of which would have every other run read again."""
    found = [make_checkpoint(f"step-{number}.pt") for number in range(8)]
    small, large = (ScanUpdate(None, 1, NO_ROWS, (), merge([], make_scan(2, *some))) for some in (found[:1], found))
    fresh = FreshCheckpoints(kept_count=8)
    other = RUN._replace(directory="/data/other")
    for run, update in ((RUN, small), (other, small), (other, large)):
        fresh.keep(run, update)
    assert fresh.take(RUN, 1) is small
    assert fresh.take(other, 1) is None
