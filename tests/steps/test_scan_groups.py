"""How many directories of one owner are scanned in one request, and how many checkpoints are in memory at once."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import Scan, Unknown
from ckptd.steps.scan_groups import MAX_DIRECTORIES, MAX_ENTRIES, LargeDirectories, ScanGroups, split_by_size
from demo.patience import allow
from support.queue_facts import NOON, RUN, make_checkpoint, make_scan


def make_watched(number, entry_count=None):
    last = None if entry_count is None else replace(make_scan(0), entry_count=entry_count)
    return WatchedRun(key=RUN._replace(directory=f"/scratch/{number}"), due_at=NOON + timedelta(number), last=last)


def list_sizes(groups, entry_counts=()):
    sizes = []
    while group := groups.take():
        sizes.append(len(group))
        groups.note(entry_counts)
    return sizes


@pytest.mark.parametrize(
    ("entry_counts", "sizes"),
    [
        ([], []),
        ([1] * 40, [16, 16, 8]),
        ([1000] * 9, [4, 4, 1]),
        ([5_000_000, 5_000_000, 1], [1, 1, 1]),
        ([100, 3900, 1, 3999, 100], [2, 2, 1]),
        ([0] * 17, [16, 1]),
    ],
)
def test_the_entries_that_the_last_scans_counted_limit_a_group(entry_counts, sizes):
    due = [make_watched(number, count) for number, count in enumerate(entry_counts)]
    assert list_sizes(ScanGroups(due)) == sizes


@pytest.mark.parametrize(("found", "size"), [(3, MAX_DIRECTORIES), (2000, 2), (8000, 1)])
def test_directories_never_scanned_are_expected_to_be_like_the_others(found, size):
    groups = ScanGroups(make_watched(number) for number in range(40))
    first, *others = list_sizes(groups, [found, None])
    assert first == 1
    assert set(others[:-1]) == {size}
    known = ScanGroups([make_watched(0, found), *(make_watched(number) for number in range(1, 40))])
    assert list_sizes(known)[0] == size


def test_each_directory_is_in_one_group_and_the_order_stays():
    due = [make_watched(number, 300 * number) for number in range(20)]
    groups, taken = ScanGroups(due), []
    while not groups.is_empty:
        taken += groups.take()
    assert taken == due


@pytest.mark.parametrize(
    ("checkpoint_counts", "sizes"),
    [
        ([], []),
        ([1] * 16, [16]),
        ([4000, 1, 3999, 1], [1, 2, 1]),
        ([9000, 9000], [1, 1]),
        ([None, 9000, None], [1, 1, 1]),
    ],
)
def test_what_is_recorded_at_once_has_a_bounded_number_of_checkpoints(checkpoint_counts, sizes):
    one = make_checkpoint()
    scanned = [
        (make_watched(number), Unknown(what="directory", reason="denied"))
        if count is None
        else (make_watched(number), replace(make_scan(0), checkpoints=(one,) * count))
        for number, count in enumerate(checkpoint_counts)
    ]
    parts = [*split_by_size(scanned, lambda each: len(each.checkpoints) if isinstance(each, Scan) else 0)]
    assert [len(part) for part in parts] == sizes
    assert [each for part in parts for each in part] == scanned


def test_the_checkpoints_of_one_large_directory_are_in_memory_at_a_time():
    large = LargeDirectories()
    has_entered = threading.Event()

    def enter(count):
        with large.wait_for_turn(count):
            has_entered.set()

    with large.wait_for_turn(MAX_ENTRIES + 1):
        enter(MAX_ENTRIES)  # few of them need not wait
        has_entered.clear()
        waiting = threading.Thread(target=enter, args=[MAX_ENTRIES + 1], daemon=True)
        waiting.start()
        assert not has_entered.wait(0.05)
    assert has_entered.wait(allow(20))
    waiting.join()
