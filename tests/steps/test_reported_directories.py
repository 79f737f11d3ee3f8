from datetime import timedelta
from pathlib import PurePosixPath

from ckptd.core.discovery.scan_schedule import GAP_PER_ENTRY, MIN_GAP
from ckptd.core.model import Scan
from ckptd.steps.reported_directories import BURST, TOGETHER, ReportedDirectories
from ckptd.steps.watchlist import Watchlist
from core.histories import RUN, START

INTERVAL = timedelta(minutes=5)
SECOND = timedelta(seconds=1)
LATER = START + timedelta(minutes=1)


def make_watchlist(count, entry_count=0, now=START):
    """Runs whose directories were all scanned a moment ago."""
    watchlist = Watchlist(INTERVAL)
    runs = [RUN._replace(directory=f"/data/run-{number:05}") for number in range(count)]
    watchlist.keep(runs, now)
    for run in runs:
        scan(watchlist, run, now, entry_count)
    return watchlist, [run.directory for run in runs]


def scan(watchlist, run, now, entry_count=0):
    found = Scan(directory=PurePosixPath(run.directory), scanned_at=now, checkpoints=(), entry_count=entry_count)
    watchlist.record_scan(run, found, now)


def scan_due(watchlist, now):
    due = [each.key for runs in watchlist.due(now, 10**6).values() for each in runs]
    for run in due:
        scan(watchlist, run, now)
    return [run.directory for run in due]


def test_a_few_reports_are_followed_at_once():
    watchlist, directories = make_watchlist(20)
    watchlist.hasten_directories(directories[3:7], LATER)
    assert sorted(scan_due(watchlist, LATER)) == directories[3:7]


def test_many_reports_are_followed_some_at_a_time_until_the_next_scan_sees_them_anyway():
    watchlist, directories = make_watchlist(1000)
    scanned = []
    for second in range(250):
        now = LATER + second * SECOND
        watchlist.hasten_directories(directories if second == 0 else (), now)
        scanned.append(scan_due(watchlist, now))
    assert [len(each) for each in scanned[: TOGETHER + 1]] == [BURST, *[0] * (TOGETHER - 1), TOGETHER]
    assert sorted(each for some in scanned for each in some) == directories  # each of them once
    assert sorted(scanned[0]) == directories[:BURST]
    assert sorted(scanned[TOGETHER]) == directories[BURST : BURST + TOGETHER]


def test_a_day_of_saves_everywhere_costs_no_more_than_the_interval_and_one_in_a_second():
    watchlist, directories = make_watchlist(600)
    count = 0
    for second in range(1, 1201):
        now = START + second * SECOND
        watchlist.hasten_directories([directories[(second * 20 + each) % 600] for each in range(20)], now)
        count += len(scan_due(watchlist, now))
    assert count <= BURST + 1200 + 600 * 1200 / INTERVAL.total_seconds()
    assert all(each.observed_at > now - INTERVAL for each in watchlist.all)


def test_who_reports_all_the_time_delays_others_little():
    watchlist, directories = make_watchlist(301)
    noisy, quiet = directories[:300], directories[300]
    for second in range(200):
        now = LATER + second * SECOND
        watchlist.hasten_directories([noisy[second % 3]], now)
        scan_due(watchlist, now)
    watchlist.hasten_directories([quiet], now)
    assert quiet in scan_due(watchlist, now)


def test_a_report_during_a_scan_is_followed_after_it():
    watchlist, [directory] = make_watchlist(1)
    watchlist.hasten_directories([directory], LATER)
    [[due]] = watchlist.due(LATER, 1).values()
    watchlist.hasten_directories([directory], LATER + SECOND)
    scan(watchlist, due.key, LATER)
    watchlist.hasten_directories((), LATER + 5 * SECOND)
    assert scan_due(watchlist, LATER + 5 * SECOND) == [directory]


def test_a_large_directory_that_changes_all_the_time_is_not_scanned_all_the_time():
    watchlist, [directory] = make_watchlist(1, entry_count=10_000)
    watchlist.hasten_directories([directory], START)
    [run] = watchlist.all
    assert run.due_at - START == 10_000 * GAP_PER_ENTRY > MIN_GAP


def test_reports_of_directories_that_nobody_watches_are_forgotten():
    watchlist, directories = make_watchlist(2)
    watchlist.hasten_directories([f"/elsewhere/{number}" for number in range(1000)], LATER)
    watchlist.hasten_directories(directories, LATER)
    assert sorted(scan_due(watchlist, LATER)) == directories


def test_a_clock_that_is_set_back_gives_no_turns_and_takes_none():
    watchlist, directories = make_watchlist(300)
    reported = ReportedDirectories()
    reported.add(directories, LATER)
    assert len(reported.take(watchlist.all, LATER)) == BURST
    back = LATER - timedelta(seconds=30)
    assert reported.take(watchlist.all, back) == []
    assert reported.take(watchlist.all, back + (TOGETHER - 1) * SECOND) == []
    assert len(reported.take(watchlist.all, back + TOGETHER * SECOND)) == TOGETHER
