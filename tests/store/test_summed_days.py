"""Sums of whole days are those of their rows, also after a row of such a day changed."""

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from ckptd.core.model import RunKey
from ckptd.core.runs.lost_work_totals import GroupedBy
from ckptd.store.day_sum_tables import DaySumTable, SummedDayTable
from ckptd.store.tables import LossTable
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job
from support.recorded import locate, poll, scan

DAY = 24 * 60
DAYS = [at(number * DAY).date() for number in range(3)]
GROUPS = [each for each in GroupedBy if each is not GroupedBy.RULE]


def end_job(store, job_id, begin, *, run=RUN, **changes):
    job = make_job(job_id, started_at=at(begin), node_count=2, cpu_count=8, partition="main", **changes)
    poll(store, begin + 1, job)
    locate(store, job_id, run, begin + 1)
    poll(store, begin + 21, replace(job, state=STATES.TIMEOUT, ends_at=at(begin + 20)))
    return job


def fill(store):
    """Record a job of alice on each of three days, and one of bob on the second."""
    for number in range(3):
        end_job(store, number + 1, number * DAY)
    end_job(store, 9, DAY + 60, run=RunKey(CLUSTER, 1001, "/data/bob/run"), user="bob", uid=1001, account="lab")


pytestmark = pytest.mark.filled_by(record=fill)


@pytest.fixture
def three_days(store):
    return store


def read_all(store):
    """Return everything that sums of days answer, once from the rows of the middle day alone, at 12:10 of the first."""
    sums, since = store.lost_work_sums, at(10)
    return [
        {group: sums.sum_by(group, since) for group in GROUPS},
        sums.sum_by(GroupedBy.CAUSE, since, cluster=CLUSTER, user="bob"),
        sums.sum_by(GroupedBy.CAUSE, at(DAY + 40)),
        sums.sum_by_day(CLUSTER),
        sums.sum_by_day(CLUSTER, first=DAYS[1], last=DAYS[1]),
        add_ends(store, since),
        add_ends(store, at(DAY + 40)),
    ]


def add_ends(store, since):
    found = {}
    for each in store.restart_state.read_ends(CLUSTER, since):
        key = each._replace(attempt_count=0, observed=timedelta(0))
        count, observed = found.get(key, (0, timedelta(0)))
        found[key] = (count + each.attempt_count, observed + each.observed)
    return found


def sum_up(store, last=DAYS[-1]):
    missing = store.summed_days.list_missing(CLUSTER, last)
    for day in missing:
        store.summed_days.sum_up(CLUSTER, day)
    return missing


def list_summed(store):
    with store.database.reading() as connection:
        return list(connection.scalars(sa.select(SummedDayTable.day).order_by(SummedDayTable.day)))


@contextmanager
def changing(store):
    """Compare what is read before and after the days that a change left without sums have theirs again."""
    yield
    of_rows = _read_without_sums(store)
    assert read_all(store) == of_rows
    sum_up(store)
    assert read_all(store) == of_rows


def _read_without_sums(store):
    with store.database.reading() as connection:
        summed, sums = (
            [dict(row._mapping) for row in connection.execute(sa.select(table.__table__))] for table in TABLES
        )
    with store.database.writing() as connection:
        for table in TABLES:
            connection.execute(sa.delete(table))
    found = read_all(store)
    with store.database.writing() as connection:
        for table, rows in zip(TABLES, (summed, sums), strict=True):
            if rows:
                connection.execute(sa.insert(table), rows)
    return found


TABLES = (SummedDayTable, DaySumTable)


@pytest.mark.parametrize("summed", [DAYS, DAYS[:1], DAYS[1:2], [DAYS[0], DAYS[2]]])
def test_sums_of_days_and_of_rows_are_the_same(three_days, summed):
    of_rows = read_all(three_days)
    for day in summed:
        three_days.summed_days.sum_up(CLUSTER, day)
    assert list_summed(three_days) == summed
    assert read_all(three_days) == of_rows


def test_days_with_lost_work_and_no_sums_are_missing(three_days):
    assert three_days.summed_days.list_missing("other", DAYS[-1]) == []
    assert sum_up(three_days, DAYS[1]) == DAYS[:2]
    assert sum_up(three_days) == DAYS[2:]
    assert sum_up(three_days) == []


def test_rows_of_a_summed_day_are_not_read(three_days):
    sum_up(three_days)
    before = read_all(three_days)
    with three_days.database.writing() as connection:
        connection.execute(sa.delete(LossTable).where(LossTable.day == DAYS[1]))
    assert read_all(three_days)[3:5] == before[3:5]


def test_a_checkpoint_that_is_found_late_changes_the_sums_of_its_day(three_days):
    sum_up(three_days)
    before = three_days.lost_work_sums.sum_by_day(CLUSTER)
    with changing(three_days):
        scan(three_days, 2 * DAY + 30, make_checkpoint(written=15))
        assert DAYS[0] not in list_summed(three_days)
    assert three_days.lost_work_sums.sum_by_day(CLUSTER) != before


def test_a_scan_that_changes_nothing_leaves_the_sums(three_days):
    scan(three_days, 2 * DAY + 30)
    sum_up(three_days)
    scan(three_days, 2 * DAY + 31)
    assert list_summed(three_days) == DAYS


def test_a_job_that_goes_on_after_its_end_changes_the_sums_of_that_day(three_days):
    job = make_job(50, started_at=at(3), node_count=1)
    poll(three_days, 4, job)
    poll(three_days, 5, replace(job, state=STATES.TIMEOUT, ends_at=at(5)))
    sum_up(three_days)
    with changing(three_days):
        poll(three_days, 2 * DAY + 40, replace(job, ends_at=at(3 * DAY)))
        assert list_summed(three_days) == DAYS[1:]


def test_records_that_expire_leave_the_sums_of_their_days(three_days):
    sum_up(three_days)
    poll(three_days, 3 * DAY)
    with changing(three_days):
        assert three_days.expiry.delete_old(CLUSTER, at(2 * DAY)).run_count == 1
        assert list_summed(three_days) == [DAYS[0], DAYS[2]]
