"""Which recorded checkpoints are those that another daemon moved to the trash."""

from datetime import timedelta

from ckptd.steps.prune import foreign_removals
from core.retention_facts import DIRECTORY, NOW, hours, saved
from support.counted_instant import CountedInstant

SECOND = timedelta(seconds=1)


def move(name, age, size=100):
    """Another daemon moved it to the trash so many hours ago."""
    return foreign_removals.ForeignMove(f"{DIRECTORY}/{name}", size, CountedInstant.of(NOW - hours(age)))


def at_place(record):
    return str(record.checkpoint.path), record.first_seen_at


def test_a_checkpoint_that_was_moved_twice_has_the_time_of_each_move():
    first = saved("epoch_1.pt", 9, epoch=1, deleted_at=NOW - hours(8) + SECOND)
    again = saved("epoch_1.pt", 5, epoch=1, deleted_at=NOW - hours(4) + SECOND)
    entries = [move("epoch_1.pt", 4), move("epoch_1.pt", 8), move("epoch_1.pt", 6, size=99), move("epoch_2.pt", 6)]
    moved, brought = foreign_removals.match([first, again], entries)
    assert moved == {at_place(first): NOW - hours(8), at_place(again): NOW - hours(4)}
    assert not brought


def test_what_is_there_came_back_after_the_last_move_before_it_was_seen():
    back = saved("epoch_1.pt", 5, epoch=1)
    older = saved("epoch_2.pt", 9, epoch=2)
    entries = [move("epoch_1.pt", 4), move("epoch_1.pt", 6), move("epoch_1.pt", 8), move("epoch_2.pt", 8)]
    assert foreign_removals.match([back, older], entries) == ({}, {at_place(back): NOW - hours(6)})


def test_thousands_of_forged_manifests_are_not_compared_with_each_overwritten_checkpoint():
    count = 300
    records = [saved("epoch_1.pt", 2 * count - n, epoch=1, deleted_at=NOW - hours(count - n)) for n in range(count)]
    entries = [move("epoch_1.pt", age) for age in range(count)]
    CountedInstant.comparison_count = 0
    moved, _ = foreign_removals.match(records, entries)
    assert len(moved) == count
    assert 0 < CountedInstant.comparison_count < 50 * count
