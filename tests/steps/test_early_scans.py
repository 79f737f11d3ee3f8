from datetime import timedelta
from pathlib import PurePosixPath
from types import SimpleNamespace

import pytest

from ckptd.core.discovery.scan_schedule import COMPARED_FOR_READ
from ckptd.core.model import Scan, Unknown
from ckptd.steps.early_scans import EARLY, add_early
from ckptd.steps.watchlist import Watchlist
from core.histories import RUN, START

INTERVAL = timedelta(minutes=5)
SECOND = timedelta(seconds=1)
LIMIT = 100


class Scans:
    """Directories of some owners, scanned as they become due."""

    def __init__(self, owners, count):
        self.watchlist = Watchlist(INTERVAL)
        self.runs = [
            RUN._replace(directory=f"/data/{uid}/{number}", uid=uid) for uid in owners for number in range(count)
        ]
        self.watchlist.keep(self.runs, START)
        self.requests = []  # the directories of each

    def record(self, run, now, found=None, fingerprint=None):
        seen = Scan(directory=PurePosixPath(run.directory), scanned_at=now, checkpoints=(), fingerprint=fingerprint)
        self.watchlist.record_scan(run, found or seen, now)

    def choose(self, now, must_wait=lambda _directory: False):
        due = self.watchlist.due(now, LIMIT, must_wait)
        return add_early(SimpleNamespace(watchlist=self.watchlist), due, now, LIMIT, must_wait)

    def pass_time(self, begin, seconds):
        for second in range(seconds):
            now = begin + second * SECOND
            for runs in self.choose(now).values():
                self.requests.append(len(runs))
                for each in runs:
                    assert now - each.observed_at >= INTERVAL * (1 - EARLY)
                    self.record(each.key, now)


def spread(owners=(1, 2), count=300):
    """Directories whose first scans were seconds apart."""
    scans = Scans(owners, count)
    for number, run in enumerate(scans.runs):
        scans.record(run, START + number % count * SECOND)
    return scans


def test_scans_of_an_owner_that_are_due_one_after_the_other_become_few_requests():
    scans = spread()
    scans.pass_time(START + 300 * SECOND, 300)
    first, scans.requests = scans.requests, []
    scans.pass_time(START + 600 * SECOND, 300)
    assert 600 <= sum(first) < 600 * 1.3
    assert sum(scans.requests) == 600  # each is early once
    for requests in (first, scans.requests):
        assert len(requests) <= 2 * (1 / EARLY + 1)


def test_a_retry_after_a_failure_is_not_early():
    scans = spread(owners=[1], count=2)
    now = START + 300 * SECOND
    scans.record(scans.runs[1], now - 299 * SECOND, found=Unknown(what="directory", reason="gone"))
    assert [[each.key for each in runs] for runs in scans.choose(now).values()] == [[scans.runs[0]]]


def test_nothing_is_early_where_nothing_is_due():
    scans = spread(owners=[1], count=3)
    assert scans.choose(START + 299 * SECOND) == {}


def test_a_file_system_without_budget_is_left_alone():
    scans = spread(owners=[1], count=3)
    [found] = scans.choose(START + 300 * SECOND, lambda directory: directory.endswith("/1")).values()
    assert {each.key.directory for each in found} == {"/data/1/0", "/data/1/2"}


def test_an_owner_has_at_most_so_many_in_one_task():
    scans = Scans([1], 300)
    for run in scans.runs:
        scans.record(run, START)
    [found] = scans.choose(START + 301 * SECOND).values()
    assert len(found) == LIMIT


@pytest.mark.parametrize(("read_count", "expected"), [(0, 500), (40, 40 + 60 * COMPARED_FOR_READ), (120, 100)])
def test_of_those_that_are_only_compared_a_task_has_more(read_count, expected):
    scans = Scans([1], 600)
    for number, run in enumerate(scans.runs):  # those to read are the longest overdue
        at = START - SECOND if number < read_count else START
        scans.record(run, at, fingerprint=None if number < read_count else "f")
    [found] = scans.choose(START + 301 * SECOND).values()
    assert len(found) == expected
