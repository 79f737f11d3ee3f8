from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.core.discovery.scan_schedule import LAST_TRIES, MAX_TROUBLE_GAP, MIN_GAP, UNREAD_GAP, WRITING_GAP
from ckptd.core.model import CheckpointState, NamedLocation, Scan, Unknown
from ckptd.steps.watchlist import Watchlist
from core.histories import RUN, START, saved

INTERVAL = timedelta(minutes=5)
EMPTY = Scan(directory=PurePosixPath(RUN.directory), scanned_at=START, checkpoints=())
HUNG = Unknown(what="directory", reason="it did not answer in time")


def watching():
    watchlist = Watchlist(INTERVAL)
    watchlist.keep([RUN], START)
    return watchlist


def due_in(watchlist):
    return watchlist.get(RUN).due_at - START


def test_a_new_run_is_due_at_once_and_then_once_in_an_interval():
    watchlist = watching()
    assert [each.key for each in watchlist.due(START, 10)[RUN.uid]] == [RUN]
    watchlist.record_scan(RUN, EMPTY, START)
    assert watchlist.due(START + INTERVAL - timedelta(seconds=1), 10) == {}
    assert due_in(watchlist) == INTERVAL


def test_a_change_makes_it_due_soon_but_never_more_often_than_the_smallest_gap():
    watchlist = watching()
    watchlist.record_scan(RUN, EMPTY, START)
    watchlist.hasten_directories([RUN.directory], START)
    assert due_in(watchlist) == MIN_GAP


def test_a_save_that_goes_on_is_looked_at_again_soon():
    watchlist = watching()
    writing = saved(0, state=CheckpointState.WRITING).checkpoint
    watchlist.record_scan(RUN, replace(EMPTY, checkpoints=(writing,)), START)
    assert due_in(watchlist) == WRITING_GAP


def test_trouble_makes_the_looks_rarer_up_to_a_bound_and_a_good_look_ends_it():
    watchlist = watching()
    gaps = []
    for _ in range(5):
        watchlist.record_scan(RUN, HUNG, START)
        gaps.append(due_in(watchlist))
    assert gaps == [INTERVAL, 2 * INTERVAL, 4 * INTERVAL, MAX_TROUBLE_GAP, MAX_TROUBLE_GAP]
    watchlist.record_scan(RUN, EMPTY, START)
    assert due_in(watchlist) == INTERVAL


def test_a_run_that_leaves_the_queue_gets_one_last_look():
    watchlist = watching()
    watchlist.record_scan(RUN, EMPTY, START)
    watchlist.keep([], START)
    assert [each.is_last_scan for each in watchlist.due(START, 10)[RUN.uid]] == [True]
    watchlist.record_scan(RUN, EMPTY, START)
    assert RUN not in watchlist


def test_a_last_look_that_sees_a_save_going_on_is_repeated_for_an_hour():
    watchlist = watching()
    watchlist.keep([], START)
    writing = replace(EMPTY, checkpoints=(saved(0, state=CheckpointState.WRITING).checkpoint,))
    watchlist.record_scan(RUN, writing, START)
    assert due_in(watchlist) == WRITING_GAP
    times = scan_until_dropped(watchlist, writing)
    assert timedelta(hours=1) <= times[-1] < timedelta(hours=2)
    assert len(times) < 60


def test_a_further_location_of_which_another_cluster_takes_care_is_not_watched():
    watchlist = watching()
    there = RUN._replace(directory="/data/old")
    watchlist.set_copies(RUN, (NamedLocation("/data/old", is_earlier=True),), START)
    assert there in watchlist
    watchlist.leave(frozenset({there}))
    watchlist.keep([RUN], START)
    assert [each.key for each in watchlist.all] == [RUN]
    watchlist.leave(frozenset())
    watchlist.keep([RUN], START)
    assert there in watchlist


PARTIAL = replace(EMPTY, problems=(HUNG,))
UNREAD = replace(EMPTY, unread_count=3)


def scan_until_dropped(watchlist, found):
    """Record the same result of every scan that is due; return after how long each was made."""
    ages = []
    while (watched := watchlist.get(RUN)) is not None:
        assert watched.is_last_scan
        ages.append(watched.due_at - START)
        watchlist.record_scan(RUN, found, watched.due_at)
    return ages


@pytest.mark.parametrize("found", [HUNG, PARTIAL])
def test_a_last_look_that_cannot_be_made_whole_is_tried_again_for_an_hour(found):
    watchlist = watching()
    watchlist.keep([], START)
    assert [each / INTERVAL for each in scan_until_dropped(watchlist, found)] == [0, 1, 3, 7, 13]


def test_with_a_short_interval_a_last_look_has_the_same_time():
    watchlist = Watchlist(timedelta(seconds=1))
    watchlist.keep([RUN], START)
    watchlist.keep([], START)
    *_, last = scan_until_dropped(watchlist, HUNG)
    assert last >= timedelta(hours=1)


def test_a_last_look_that_had_not_time_for_everything_goes_on_soon():
    watchlist = watching()
    watchlist.keep([], START)
    for _ in range(20):
        watchlist.record_scan(RUN, UNREAD, watchlist.get(RUN).due_at)
    assert due_in(watchlist) == 20 * UNREAD_GAP
    watchlist.record_scan(RUN, EMPTY, START + 21 * UNREAD_GAP)
    assert RUN not in watchlist


@pytest.mark.parametrize("found", [HUNG, PARTIAL])
def test_a_visit_that_cannot_be_made_whole_is_tried_again_as_long(found):
    watchlist = Watchlist(INTERVAL)
    watchlist.visit([RUN], START)
    assert [each / INTERVAL for each in scan_until_dropped(watchlist, found)] == [0, 1, 3, 7, 13]


def test_a_last_look_that_never_gets_on_becomes_rare():
    watchlist = watching()
    watchlist.keep([], START)
    assert len(scan_until_dropped(watchlist, UNREAD)) < 30


def test_trouble_before_the_end_makes_the_last_look_no_later():
    watchlist = watching()
    for _ in range(9):
        watchlist.record_scan(RUN, HUNG, START)
    watchlist.keep([], START)
    assert [each / INTERVAL for each in scan_until_dropped(watchlist, HUNG)] == [0, 1, 3, 7, 13]


@pytest.mark.parametrize(("found", "times"), [(HUNG, LAST_TRIES), (PARTIAL, 1)])
def test_a_search_after_the_end_is_tried_a_few_times(found, times):
    watchlist, unlocated = Watchlist(INTERVAL), RUN._replace(directory="job:1")
    watchlist.keep([unlocated], START)
    watchlist.keep([], START)
    count = 0
    while watchlist.get(unlocated) is not None:
        watchlist.record_scan(unlocated, found, watchlist.get(unlocated).due_at)
        count += 1
    assert count == times


def test_a_last_look_keeps_its_time_under_its_new_name():
    watchlist = Watchlist(INTERVAL)
    unlocated = RUN._replace(directory="job:1")
    watchlist.keep([unlocated], START)
    watchlist.keep([], START)
    watchlist.move(unlocated, RUN, START)
    assert scan_until_dropped(watchlist, HUNG)[-1] >= timedelta(hours=1)


def test_a_run_whose_jobs_are_over_is_looked_at_once_under_its_old_and_its_new_name():
    watchlist = Watchlist(INTERVAL)
    unlocated = RUN._replace(directory="job:1")
    watchlist.visit([unlocated], START)
    watchlist.move(unlocated, RUN, START)
    assert [each.is_last_scan for each in watchlist.due(START, 10)[RUN.uid]] == [True]
    watchlist.record_scan(RUN, EMPTY, START)
    assert watchlist.all == ()


def test_a_visit_leaves_a_run_that_is_watched_as_it_is():
    watchlist = watching()
    watchlist.record_scan(RUN, EMPTY, START)
    watchlist.visit([RUN], START)
    watchlist.visit([RUN._replace(directory="job:1")], START)
    watchlist.move(RUN._replace(directory="job:1"), RUN, START)
    assert not watchlist.get(RUN).is_last_scan


def test_a_run_that_comes_back_before_its_last_look_is_kept():
    watchlist = watching()
    watchlist.keep([], START)
    watchlist.keep([RUN], START)
    watchlist.record_scan(RUN, EMPTY, START)
    assert RUN in watchlist


def test_a_run_moves_to_its_directory_once_it_is_known():
    watchlist = Watchlist(INTERVAL)
    unlocated = RUN._replace(directory="job:1@x")
    watchlist.keep([unlocated], START)
    watchlist.move(unlocated, RUN, START)
    assert [each.key for each in watchlist.due(START, 10)[RUN.uid]] == [RUN]


def test_a_run_that_another_job_joins_as_its_last_one_ends_is_watched_on():
    watchlist = watching()
    unlocated = RUN._replace(directory="job:2@20260301T120000Z")
    watchlist.keep([unlocated], START)
    watchlist.move(unlocated, RUN, START)
    watchlist.record_scan(RUN, EMPTY, START)
    assert RUN in watchlist


def test_a_shorter_interval_holds_for_what_was_scanned_already():
    watchlist = watching()
    watchlist.record_scan(RUN, EMPTY, START)
    watchlist.set_interval(INTERVAL / 5, START)
    assert watchlist.get(RUN).due_at == START + INTERVAL / 5
    watchlist.record_scan(RUN, EMPTY, START + INTERVAL)
    assert watchlist.get(RUN).due_at == START + INTERVAL + INTERVAL / 5


def test_after_a_shorter_interval_what_is_overdue_is_due_now():
    watchlist = watching()
    watchlist.record_scan(RUN, EMPTY, START)
    now = START + INTERVAL / 2
    watchlist.set_interval(INTERVAL / 5, now)
    assert watchlist.get(RUN).due_at == now


def test_a_longer_interval_holds_from_the_next_scan_on():
    watchlist = watching()
    watchlist.record_scan(RUN, EMPTY, START)
    watchlist.set_interval(INTERVAL * 5, START)
    assert watchlist.get(RUN).due_at == START + INTERVAL
    watchlist.record_scan(RUN, EMPTY, START + INTERVAL)
    assert watchlist.get(RUN).due_at == START + INTERVAL * 6


def test_another_interval_makes_no_trouble_be_tried_sooner():
    watchlist = watching()
    watchlist.record_scan(RUN, Unknown(what="directory", reason="silent"), START)
    due_at = watchlist.get(RUN).due_at
    watchlist.set_interval(timedelta(seconds=1), START)
    assert watchlist.get(RUN).due_at == due_at


def test_the_watched_directories_are_the_same_object_until_a_run_comes_or_goes():
    watchlist = watching()
    known = watchlist.directories
    assert known == {(RUN.directory, RUN.uid)}
    watchlist.record_scan(RUN, EMPTY, START)
    assert watchlist.directories is known
    moved = RUN._replace(directory="/elsewhere")
    watchlist.move(RUN, moved, START)
    assert watchlist.directories == {("/elsewhere", RUN.uid)}
    watchlist.keep([], START)
    watchlist.record_scan(moved, EMPTY, START)
    assert watchlist.directories == frozenset()


def test_a_last_scan_during_which_the_jobs_came_back_and_ended_again_is_not_the_last_one():
    watchlist = watching()
    watchlist.keep([], START)
    [scanned] = watchlist.due(START, 10)[RUN.uid]
    watchlist.keep([RUN], START + MIN_GAP)
    watchlist.keep([], START + 2 * MIN_GAP)
    watchlist.record_scan(RUN, EMPTY, START, scanned)
    assert watchlist.get(RUN).is_last_scan


@pytest.mark.parametrize("began", [4, 6])  # the second while Slurm is asked, which takes a while
def test_a_scan_that_was_under_way_when_the_jobs_ended_is_not_the_last_one(began):
    watchlist = watching()
    [scanned] = watchlist.due(START, 10)[RUN.uid]
    watchlist.keep([], START + timedelta(seconds=5))  # a poll sees the end while the scan still runs
    watchlist.record_scan(RUN, EMPTY, START + timedelta(seconds=began), scanned)
    later = START + timedelta(seconds=7)
    [again] = watchlist.due(later, 10)[RUN.uid]
    assert again.is_last_scan
    watchlist.record_scan(RUN, EMPTY, later, again)
    assert RUN not in watchlist


def test_a_run_that_was_scanned_in_the_future_is_scanned_at_once_because_the_clock_was_set_back():
    watchlist = watching()
    watchlist.record_scan(RUN, EMPTY, START)
    assert [each.key for each in watchlist.due(START - timedelta(minutes=10), 10)[RUN.uid]] == [RUN]
    assert watchlist.due(START - MIN_GAP, 10) == {}
