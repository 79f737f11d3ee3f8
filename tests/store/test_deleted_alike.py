"""Of deleted checkpoints, a scan needs those alone that may be what it found: nothing else changes the comparison."""

import random
from dataclasses import replace

import pytest

from ckptd.core.model import FileIdentity
from ckptd.core.model.records import ScanRecord
from support import recorded
from support.examples import FACTOR
from support.queue_facts import RUN, at, make_checkpoint, make_job, make_scan, merge

NAMES = ["last.pt", "step-1.pt", "step-2.pt", "step-3.pt", "step-4.pt"]


def begin_run(store):
    recorded.poll(store, 0, make_job(1))
    recorded.locate(store, 1)


pytestmark = pytest.mark.filled_by(record=begin_run)


def make_any(luck, minute, name):
    """A checkpoint that a few minutes and inodes tell from others."""
    saved = minute - luck.randrange(3)
    identity = FileIdentity(1, luck.randrange(3), 100, saved * 60 * 10**9)
    return replace(make_checkpoint(name, saved, step=saved), identities=(identity,))


@pytest.mark.parametrize("seed", range(2 * FACTOR))
def test_the_comparison_is_that_with_all_deleted_ones(store, seed):
    luck = random.Random(seed)
    shelf = []  # what users may put back
    returned_count = 0
    for minute in range(2, 30):
        there = {name: make_any(luck, minute, name) for name in luck.sample(NAMES, luck.randrange(len(NAMES) + 1))}
        if shelf and luck.random() < 0.5:
            again = luck.choice(shelf)
            there[again.path.name] = again
        shelf += there.values()
        seen = make_scan(minute, *there.values())
        everything = store.checkpoints.read(RUN)
        present = store.checkpoints.read_present([RUN])[RUN]
        assert tuple(present) == tuple(each for each in everything if each.deleted_at is None)
        alike = store.checkpoints.read_deleted_alike({RUN: there.values()})[RUN]
        assert all(each in everything for each in alike)
        expected = merge(everything, seen)
        assert merge((*present, *alike), seen) == expected
        returned_count += sum(replace(each, deleted_at=None) in expected.changed for each in alike)
        store.checkpoints.record_scans([ScanRecord(run=RUN, scan=seen, changes=expected)])
    assert returned_count > 1


def test_few_are_read_where_a_job_overwrites_the_same_file_all_the_time(store):
    for minute in range(2, 40):
        saved = make_checkpoint("last.pt", minute, step=minute, content_step=minute)
        identity = FileIdentity(1, minute, 100, minute * 60 * 10**9)
        recorded.scan(store, minute, replace(saved, identities=(identity,)))
    [present] = store.checkpoints.read_present([RUN])[RUN]
    assert len(store.checkpoints.read(RUN)) == 38
    newer = replace(present.checkpoint, modified_at=at(40))
    assert store.checkpoints.read_deleted_alike({RUN: [newer]}) == {RUN: ()}
