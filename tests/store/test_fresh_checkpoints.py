"""A history from checkpoints that were just recorded is the one that the database gives."""

import random
from dataclasses import replace

import pytest

from ckptd.core.model import CheckpointState, Role
from ckptd.core.model.records import ScanRecord
from ckptd.store.fresh_checkpoints import FreshCheckpoints
from support import recorded
from support.queue_facts import RUN, at, make_checkpoint, make_job, make_scan, merge


def begin_run(store):
    recorded.poll(store, 0, make_job(1))
    recorded.locate(store, 1)


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


@pytest.mark.parametrize("count", [0, 1, 20, 63, 64, 65, 90, 200])
@pytest.mark.parametrize("seed", range(3))
def test_the_history_is_that_of_the_database(store, count, seed):
    luck = random.Random(f"{count} {seed}")
    begin_run(store)
    attempts = read(store).attempts
    changes = merge([], make_scan(2, *(make_any(luck, number) for number in range(count))), attempts)
    appeared = tuple(replace(each, first_seen_at=at(luck.randrange(2, 4))) for each in changes.appeared)
    changes = replace(changes, appeared=appeared)
    written = store.checkpoints.record_scans([ScanRecord(run=RUN, scan=make_scan(2), changes=changes)])
    expected = read(store)
    if count:
        store.histories.fresh.keep(RUN, written[RUN], changes.appeared)
    assert read(store) == expected
    assert store.histories.fresh.take(RUN, written.get(RUN, 0)) is None


def read(store):
    return store.histories.read_changed({RUN: None}).records[RUN].record


def test_checkpoints_of_another_revision_are_not_used(store):
    begin_run(store)
    changes = merge([], make_scan(2, make_checkpoint()))
    written = store.checkpoints.record_scans([ScanRecord(run=RUN, scan=make_scan(2), changes=changes)])
    store.histories.fresh.keep(RUN, written[RUN], ())
    store.checkpoints.set_pinned(RUN, f"{RUN.directory}/step-1.pt", is_pinned=True)
    [found] = read(store).checkpoints
    assert found.is_pinned


def test_the_oldest_give_way_where_there_is_no_room():
    appeared = merge([], make_scan(2, make_checkpoint("a"), make_checkpoint("b"))).appeared
    fresh = FreshCheckpoints(kept_count=5)
    runs = [RUN._replace(directory=f"/data/{number}") for number in range(3)]
    for run in runs:
        fresh.keep(run, 1, appeared)
    assert [fresh.take(run, 1) for run in runs] == [None, appeared, appeared]
