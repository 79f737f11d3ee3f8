"""What a person renamed, moved or brought back stays; what a job saves again under old names does not for ever."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from ckptd.core import retention
from ckptd.core.model import Grouping
from ckptd.core.retention import copies, user_kept
from core.retention_facts import (
    DIRECTORY,
    NOW,
    attempt,
    grouping_of,
    hours,
    names,
    policy_of,
    removed,
    run_of,
    saved,
)


def epochs(first, last, *, oldest=100, **changes):
    return [saved(f"epoch_{n}.pt", oldest - n, epoch=n, **changes) for n in range(first, last + 1)]


def reasons_of(path, run):
    made = retention.plan_run(run, policy_of(), NOW)
    return next(one.reasons for one in made.decisions if one.path == f"{DIRECTORY}/{path}")


def renamed(record, name, age, **changes):
    """The same file under another name since so many hours, and what is left of it under its own."""
    seen_at = NOW - hours(age)
    facts = {"path": record.checkpoint.path.parent / name, "files": (name,), "grouping": grouping_of(name), **changes}
    there = replace(record, first_seen_at=seen_at, checkpoint=replace(record.checkpoint, **facts))
    return [replace(record, deleted_at=seen_at), there]


def test_what_was_renamed_stays():
    records = epochs(1, 8)
    kept = [*renamed(records[3], "keep_epoch_4.pt", 50), *renamed(records[4], "keep_epoch_5.pt", 50)]
    run = run_of(*records[:3], *kept, *records[5:])
    assert removed(run) == {f"epoch_{n}.pt" for n in (1, 2, 3, 6, 7)}
    assert reasons_of("keep_epoch_4.pt", run) == ("it was renamed or moved after it was complete",)


def test_shards_with_the_word_part_in_their_names_were_not_unfinished_before_they_were_renamed():
    records = [saved(f"ckpt_part_epoch_{n}.pt", 100 - n, epoch=n) for n in range(1, 5)]
    there = [pair for n in (1, 2) for pair in renamed(records[n - 1], f"keep_ckpt_part_epoch_{n}.pt", 50)]
    assert removed(run_of(*there, *records[2:])) == {"ckpt_part_epoch_3.pt"}


def test_a_directory_in_which_a_file_was_renamed_stays_whole():
    records = epochs(1, 6)
    run = run_of(*records[:2], replace(records[2], renamed_at=NOW - hours(50)), *records[3:])
    assert removed(run) == {f"epoch_{n}.pt" for n in (1, 2, 4, 5)}
    assert reasons_of("epoch_3.pt", run) == (user_kept.MEMBER_RENAMED,)


def test_what_was_moved_into_a_directory_stays():
    records = epochs(1, 8)
    moved = [pair for n in (3, 4, 5) for pair in renamed(records[n], f"good/epoch_{n + 1}.pt", 50)]
    run = run_of(*records[:3], *moved, *records[6:])
    assert removed(run) == {f"epoch_{n}.pt" for n in (1, 2, 3, 7)}


def test_what_a_program_renames_when_it_is_finished_was_kept_by_nobody():
    records = epochs(1, 4)
    pairs = [pair for each in records for pair in _finished(each)]
    assert removed(run_of(*pairs)) == {"epoch_1.pt", "epoch_2.pt", "epoch_3.pt"}
    unfinished = [replace(one, completed_at=None) if one.deleted_at else one for one in pairs]
    assert removed(run_of(*unfinished)) == {"epoch_1.pt", "epoch_2.pt", "epoch_3.pt"}


def _finished(record):
    temporary = f"{record.checkpoint.path.name}.tmp"
    at = record.first_seen_at
    there = replace(record.checkpoint, path=record.checkpoint.path.parent / temporary, files=(temporary,))
    seen = replace(record, checkpoint=there, first_seen_at=at - hours(0.1), deleted_at=at)
    return [seen, record]


def test_a_second_name_that_a_program_gives_to_its_last_checkpoint_was_kept_by_nobody():
    records = epochs(1, 4)
    last = [
        replace(
            one,
            first_seen_at=one.first_seen_at - hours(0.1),
            deleted_at=one.first_seen_at + hours(1),
            checkpoint=replace(
                one.checkpoint, path=one.checkpoint.path.parent / "last.pt", files=("last.pt",), grouping=Grouping()
            ),
        )
        for one in records
    ]
    assert removed(run_of(*records, *last)) == {"epoch_1.pt", "epoch_2.pt", "epoch_3.pt"}


def test_what_was_extracted_from_an_archive_with_its_times_of_writing_stays():
    records = epochs(1, 6)
    archived = [replace(one, first_seen_at=NOW - hours(96.5)) for one in records[:2]]
    run = run_of(*archived, *records[2:])
    assert removed(run) == {f"epoch_{n}.pt" for n in (3, 4, 5)}
    assert reasons_of("epoch_1.pt", run) == ("it appeared later than others of its series that were written after it",)


def test_what_a_clock_that_is_ahead_dated_in_the_future_makes_no_others_appear_late():
    records = epochs(1, 6)
    ahead = replace(records[1], checkpoint=replace(records[1].checkpoint, modified_at=NOW + hours(1000)))
    assert removed(run_of(records[0], ahead, *records[2:])) == {f"epoch_{n}.pt" for n in (1, 3, 4, 5)}


def test_a_copy_from_the_trash_is_not_pruned_again():
    records = epochs(1, 8)
    pruned = [replace(one, pruned_at=NOW - hours(30), deleted_at=NOW - hours(30)) for one in records[:3]]
    copied = saved("epoch_2.pt", 20, epoch=2, inode=999)
    run = run_of(*pruned, *records[3:], copied)
    assert removed(run) == {f"epoch_{n}.pt" for n in (4, 5, 6, 7)}
    assert reasons_of("epoch_2.pt", run) == ("it appeared again after it was pruned",)


def test_a_later_save_with_the_same_file_names_and_sizes_is_no_copy_from_the_trash():
    file = "mp_rank_00_model_states.pt"
    records = [saved(f"global_step{n}", 100 - n, step=n, files=(f"global_step{n}/{file}",)) for n in range(31, 39)]
    pruned = [replace(one, pruned_at=NOW - hours(63.5), deleted_at=NOW - hours(63.5)) for one in records[:6]]
    assert removed(run_of(*pruned, *records[6:])) == {"global_step37"}


def test_copies_from_the_trash_under_numbers_of_a_persons_own_are_not_pruned_again():
    records = [saved(f"checkpoint_{n}", 100 - n, step=n, files=(f"checkpoint_{n}/model.bin",)) for n in range(31, 39)]
    pruned = [replace(one, pruned_at=NOW - hours(61), deleted_at=NOW - hours(61)) for one in records[:7]]
    copied = [saved(f"good_{n}", 20 - n, step=n, files=(f"good_{n}/model.bin",)) for n in (1, 2)]
    run = run_of(*pruned, records[7], *copied)
    assert {reasons_of(f"good_{n}", run) for n in (1, 2)} == {("it appeared again after it was pruned",)}


def test_copies_from_the_trash_into_a_directory_of_their_own_are_not_pruned_again():
    records = epochs(1, 8)
    pruned = [replace(one, pruned_at=NOW - hours(30), deleted_at=NOW - hours(30)) for one in records[:5]]
    copied = [saved(f"epoch_{n}.pt", 20 - n / 100, epoch=n, directory=f"{DIRECTORY}/good") for n in (3, 4, 5)]
    copied = [
        replace(
            one, checkpoint=replace(one.checkpoint, grouping=replace(one.checkpoint.grouping, series="good/epoch_#.pt"))
        )
        for one in copied
    ]
    assert removed(run_of(*pruned, *records[5:], *copied)) == {"epoch_6.pt", "epoch_7.pt"}


def test_what_was_moved_out_of_the_trash_under_another_name_is_not_pruned_again():
    records = epochs(1, 8)
    pruned = replace(records[1], pruned_at=NOW - hours(30), deleted_at=NOW - hours(30))
    _, back = renamed(records[1], "mine_2.pt", 20)
    _, other = renamed(records[2], "mine_3.pt", 20)
    run = run_of(records[0], pruned, replace(records[2], deleted_at=NOW - hours(20)), back, other, *records[3:])
    assert {"mine_2.pt", "mine_3.pt"}.isdisjoint(removed(run))
    assert reasons_of("mine_2.pt", run) == ("it appeared again after it was pruned",)


def test_a_restored_one_that_nobody_is_credited_with_stays():
    records = epochs(1, 8)
    assert "epoch_2.pt" not in removed(run_of(*records[:1], replace(records[1], attempt=None), *records[2:]))


def test_a_job_that_starts_over_under_old_names_is_pruned_once_it_is_past_them():
    pruned = [replace(one, pruned_at=NOW - hours(50), deleted_at=NOW - hours(50)) for one in epochs(1, 5)]
    replaced = [replace(one, deleted_at=NOW - hours(40)) for one in epochs(6, 6)]
    attempts = [attempt(0, ended=60), attempt(0, job=2, begun=45, ended=0.1)]
    again = [saved(f"epoch_{n}.pt", 40 - n, epoch=n, by=(2, 0), inode=900 + n) for n in range(1, 9)]
    young = run_of(*pruned, *replaced, *again[:4], attempts=attempts)
    assert not retention.plan_run(young, policy_of(), NOW).remove
    past = run_of(*pruned, *replaced, *again, attempts=attempts)
    assert removed(past) == {f"epoch_{n}.pt" for n in range(1, 8)}


def test_a_copy_among_what_a_job_that_started_over_saves_is_not_pruned_again():
    pruned = [replace(one, pruned_at=NOW - hours(50), deleted_at=NOW - hours(50)) for one in epochs(1, 5)]
    attempts = [attempt(0, ended=60), attempt(0, job=2, begun=45, ended=0.1)]
    again = [saved(f"epoch_{n}.pt", 40 - n, epoch=n, by=(2, 0), inode=900 + n) for n in range(6, 12)]
    copied = [saved(f"epoch_{n}.pt", 10 - n / 100, epoch=n, by=(2, 0), inode=800 + n) for n in (1, 2)]
    gone = removed(run_of(*pruned, *again, *copied, attempts=attempts))
    assert gone == {f"epoch_{n}.pt" for n in range(6, 11)}


@pytest.mark.parametrize(("number", "saved_since"), [(6, 1), (6, 2), (2, 3), (1, 2)])
def test_a_copy_from_the_trash_after_a_restart_is_no_sign_that_the_job_started_over(number, saved_since):
    last = 2 * number - 1  # before the restart
    pruned = [replace(one, pruned_at=NOW - hours(50), deleted_at=NOW - hours(50)) for one in epochs(1, last)]
    loaded = saved(f"epoch_{last + 1}.pt", 60, epoch=last + 1)
    attempts = [attempt(0, ended=45.1), attempt(1, begun=45, ended=0.1)]
    copy = saved(f"epoch_{number}.pt", 44, epoch=number, by=(1, 1), inode=800)
    numbers = range(last + 2, last + 2 + saved_since)
    since = [saved(f"epoch_{n}.pt", 44 - (n - last), epoch=n, by=(1, 1), inode=900 + n) for n in numbers]
    run = run_of(*pruned, loaded, copy, *since, attempts=attempts)
    assert removed(run) == {f"epoch_{n}.pt" for n in (last + 1, *numbers[:-1])}
    assert reasons_of(f"epoch_{number}.pt", run) == ("it appeared again after it was pruned",)


@pytest.mark.parametrize("missing", [1, 4])
def test_a_job_that_starts_over_is_pruned_though_one_of_its_saves_is_missing(missing):
    pruned = [replace(one, pruned_at=NOW - hours(50), deleted_at=NOW - hours(50)) for one in epochs(1, 10)]
    numbers = [n for n in range(1, 14) if n != missing]
    again = [saved(f"epoch_{n}.pt", 40 - n, epoch=n, by=(1, 1), inode=900 + n) for n in numbers]
    run = run_of(*pruned, *again, attempts=[attempt(0, ended=45.1), attempt(1, begun=45, ended=0.1)])
    assert removed(run) == {f"epoch_{n}.pt" for n in numbers[:-1]}


@pytest.mark.parametrize("copied", [(3, 4), (1, 2), (5, 10), (1, 3, 5, 7, 9)])
@pytest.mark.parametrize("saved_since", [1, 2, 4])
def test_several_copies_from_the_trash_after_a_restart_stay(copied, saved_since):
    pruned = [replace(one, pruned_at=NOW - hours(50), deleted_at=NOW - hours(50)) for one in epochs(1, 10)]
    loaded = saved("epoch_11.pt", 60, epoch=11)
    back = [saved(f"epoch_{n}.pt", 44 - n / 100, epoch=n, by=(1, 1), inode=800 + n) for n in copied]
    numbers = range(12, 12 + saved_since)
    since = [saved(f"epoch_{n}.pt", 50 - n, epoch=n, by=(1, 1), inode=900 + n) for n in numbers]
    attempts = [attempt(0, ended=45.1), attempt(1, begun=45, ended=0.1)]
    run = run_of(*pruned, loaded, *back, *since, attempts=attempts)
    assert removed(run) == {f"epoch_{n}.pt" for n in (11, *numbers[:-1])}


def test_the_same_names_in_another_directory_that_were_there_all_the_time_are_no_copies():
    pruned = [replace(one, pruned_at=NOW - hours(1), deleted_at=NOW - hours(1)) for one in epochs(1, 5)]
    other = [
        saved(f"b/epoch_{n}.pt", 90 - n, epoch=n, files=(f"epoch_{n}.pt",), path=f"{DIRECTORY}/b/epoch_{n}.pt")
        for n in range(1, 4)
    ]
    assert removed(run_of(*pruned, *epochs(6, 6), *other)) == {"epoch_1.pt", "epoch_2.pt"}
    assert names(retention.plan_run(run_of(*pruned, *other), policy_of(), NOW).keep) == {"epoch_3.pt"}


def copied(number, age, *, place="good/", name="epoch", **changes):
    path = f"{place}{name}_{number}.pt"
    return saved(path, age, epoch=number, inode=int(5000 + 10 * age), files=(path.rpartition("/")[2],), **changes)


def test_copies_that_were_made_on_different_occasions_stay():
    records = [saved(f"epoch_{n}.pt", 100 - n, epoch=n) for n in range(1, 7)]
    copies = [copied(2, 97.5), copied(4, 95.5), copied(5, 94.5)]
    run = run_of(*records, *copies)
    assert names(retention.plan_run(run, policy_of(), NOW).keep) >= {"epoch_6.pt"}
    gone = {decision.path for decision in retention.plan_run(run, policy_of(), NOW).remove}
    assert gone == {f"{DIRECTORY}/epoch_{n}.pt" for n in range(1, 6)}
    assert reasons_of("good/epoch_2.pt", run) == (
        f"it has the size and the progress of {DIRECTORY}/epoch_2.pt, which was there before",
    )
    kept_times = [replace(one, first_seen_at=NOW - hours(50)) for one in (copied(2, 98), copied(4, 96))]  # cp -p
    gone = {decision.path for decision in retention.plan_run(run_of(*records, *kept_times), policy_of(), NOW).remove}
    assert gone == {f"{DIRECTORY}/epoch_{n}.pt" for n in range(1, 6)}


def test_copies_stay_beside_what_was_moved_to_the_same_place():
    records = epochs(1, 8)
    moved = renamed(records[4], "good/epoch_5.pt", 50, files=("epoch_5.pt",))
    run = run_of(*records[:4], *moved, *records[5:], copied(2, 97.5), copied(3, 96.5))
    gone = {decision.path for decision in retention.plan_run(run, policy_of(), NOW).remove}
    assert gone == {f"{DIRECTORY}/epoch_{n}.pt" for n in (1, 2, 3, 4, 6, 7)}


@pytest.mark.parametrize("numbers", [(2, 45), (1, 4, 45)])
def test_copies_stay_beside_one_whose_original_has_changed_since(numbers):
    """A note makes the original another size, so that the last copy is like no other; but no job saves 4, then 45."""
    records = epochs(1, 60)
    there = [copied(n, 99.5 - n) for n in numbers[:-1]]
    last = copied(numbers[-1], 99.5 - numbers[-1], size=77)
    gone = {decision.path for decision in retention.plan_run(run_of(*records, *there, last), policy_of(), NOW).remove}
    assert gone == {f"{DIRECTORY}/epoch_{n}.pt" for n in range(1, 60)}


def test_copies_stay_beside_what_was_moved_to_the_same_place_and_has_a_file_more():
    records = epochs(1, 8)
    found = records[4].checkpoint
    note, weights, state = (found.identities[0]._replace(inode=number) for number in (1, 2, 3))
    kept = replace(found, files=("state", "weights"), identities=(state, weights), size_bytes=200)
    gone, there = renamed(replace(records[4], checkpoint=kept), "good/epoch_5.pt", 50)
    more = {"files": ("note", "state", "weights"), "identities": (note, state, weights), "size_bytes": 300}
    moved = [gone, replace(there, checkpoint=replace(there.checkpoint, **more))]
    run = run_of(*records[:4], *moved, *records[5:], *(copied(n, 99.5 - n) for n in (1, 2, 3, 4)))
    went = {decision.path for decision in retention.plan_run(run, policy_of(), NOW).remove}
    assert went == {f"{DIRECTORY}/epoch_{n}.pt" for n in (1, 2, 3, 4, 6, 7)}


@pytest.mark.parametrize("is_directory", [False, True])
def test_what_finding_pruned_ones_again_takes_grows_with_their_number_alone(is_directory, monkeypatch):
    counts, called = {}, Counter()
    read = copies.read_progress
    monkeypatch.setattr(copies, "read_progress", lambda one: (called.update("x"), read(one))[1])
    for count in (50, 100):
        names_of = {"files": ("state.pt",)} if is_directory else {}
        pruned = [
            replace(one, deleted_at=NOW - hours(500), pruned_at=NOW - hours(500))
            for one in epochs(1, count, oldest=2000, **names_of)
        ]
        there = epochs(count + 1, 2 * count, oldest=450, **names_of)
        called.clear()
        present = [(str(each.checkpoint.path), each) for each in there]
        assert user_kept.find_kept(present, [*pruned, *there], {}, hours(0)) == {}
        counts[count] = called.total()
    assert counts[100] < 2.5 * counts[50]


@pytest.mark.parametrize("are_moved", [False, True])
def test_what_finding_copies_takes_grows_with_their_number_alone(are_moved, monkeypatch):
    counts, called = {}, Counter()
    for name in ("_written", "_list_inodes", "read_progress"):
        original = getattr(copies, name)
        monkeypatch.setattr(copies, name, lambda one, original=original: (called.update("x"), original(one))[1])
    for count in (50, 100):
        records = epochs(1, count, oldest=1000)
        there = [copied(n, 999.5 - n) for n in range(1, count // 2)]
        for n in range(count // 2, count if are_moved else 0):
            there += renamed(records[n], f"good/epoch_{n + 1}.pt", 50, files=(f"epoch_{n + 1}.pt",))
        called.clear()
        recorded = [*records, *there]
        found = dict(copies.find_copies([(str(each.checkpoint.path), each) for each in recorded], recorded))
        assert len(found) == count // 2 - 1
        counts[count] = called.total()
    assert counts[100] < 2.5 * counts[50]


def test_copies_that_show_only_one_of_two_numbers_stay():
    def saved_within(path, age, *progress, epoch, **changes):
        files = (f"epoch_{epoch}/model_{100 * epoch}.pt",)
        grouping = Grouping(series=re.sub(r"\d+", "#", path), progress=progress, has_progress_word=True)
        return saved(path, age, epoch=epoch, files=files, grouping=grouping, **changes)

    records = [
        saved_within(f"epoch_{n}/model_{100 * n}.pt", 100 - n, n, 100 * n, epoch=n, step=100 * n, inode=n)
        for n in range(1, 5)
    ]
    copies = [saved_within(f"good/epoch_{n}", 50 - n / 100, n, epoch=n, inode=50 + n) for n in (1, 2)]
    gone = {decision.path for decision in retention.plan_run(run_of(*records, *copies), policy_of(), NOW).remove}
    assert gone == {f"{DIRECTORY}/epoch_{n}/model_{100 * n}.pt" for n in (1, 2, 3)}


def test_copies_under_another_name_beside_the_originals_stay():
    records = [saved(f"epoch_{n}.pt", 100 - n, epoch=n, content_epoch=n) for n in range(1, 7)]
    copies = [copied(n, 99.5 - n, place="", name="keep", content_epoch=n) for n in (2, 4)]
    assert removed(run_of(*records, *copies)) == {f"epoch_{n}.pt" for n in range(1, 6)}


def test_another_fold_whose_checkpoints_have_the_same_size_was_copied_by_nobody():
    folds = [
        saved(
            f"fold{fold}/epoch_{n}.pt",
            100 - 10 * fold - n,
            epoch=n,
            files=(f"epoch_{n}.pt",),
            grouping=grouping_of(f"fold{fold}/epoch_{n}.pt"),
        )
        for fold in (1, 2)
        for n in range(1, 6)
    ]
    gone = {decision.path for decision in retention.plan_run(run_of(*folds), policy_of(), NOW).remove}
    assert gone == {f"{DIRECTORY}/fold{fold}/epoch_{n}.pt" for fold in (1, 2) for n in range(1, 5)}


def test_an_attempt_that_goes_on_in_another_directory_copies_nothing():
    old = [saved(f"version_0/epoch_{n}.pt", 100 - n, epoch=n, files=(f"epoch_{n}.pt",)) for n in range(1, 7)]
    new = [saved(f"version_1/epoch_{n}.pt", 60 - n, epoch=n, by=(1, 1), files=(f"epoch_{n}.pt",)) for n in range(5, 10)]
    attempts = [attempt(0, ended=70), attempt(1, begun=60, ended=0.1, resumed_from=f"{DIRECTORY}/version_0/epoch_4.pt")]
    gone = {one.path for one in retention.plan_run(run_of(*old, *new, attempts=attempts), policy_of(), NOW).remove}
    assert gone >= {f"{DIRECTORY}/version_1/epoch_{n}.pt" for n in range(5, 9)}


def test_what_was_moved_out_of_a_directory_with_a_temporary_name_stays():
    records = [saved(f"tmp_run/epoch_{n}.pt", 100 - n, epoch=n, files=(f"epoch_{n}.pt",), inode=n) for n in range(1, 7)]
    good = records[0].checkpoint.path.parent.parent / "good"
    moved = [
        pair
        for n in (2, 4)
        for pair in renamed(
            records[n - 1],
            f"epoch_{n}.pt",
            98.5 - n,
            path=good / f"epoch_{n}.pt",
            grouping=grouping_of(f"good/epoch_{n}.pt"),
        )
    ]
    run = run_of(*(one for n, one in enumerate(records, 1) if n not in {2, 4}), *moved)
    assert removed(run) == {"epoch_1.pt", "epoch_3.pt", "epoch_5.pt"}


def test_what_passes_one_by_one_through_a_temporary_directory_was_moved_by_the_program():
    records = [saved(f"epoch_{n}.pt", 100 - n, epoch=n, inode=n) for n in range(1, 5)]
    staged = [
        replace(
            one,
            first_seen_at=one.first_seen_at - hours(0.1),
            deleted_at=one.first_seen_at,
            checkpoint=replace(one.checkpoint, path=one.checkpoint.path.parent / "tmp" / one.checkpoint.path.name),
        )
        for one in records
    ]
    assert removed(run_of(*records, *staged)) == {"epoch_1.pt", "epoch_2.pt", "epoch_3.pt"}
