import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from ckptd.core.clock_jumps import ClockWatch
from ckptd.service.schedule import Schedule, wake
from ckptd.service.step_table import STEPS
from demo.patience import allow
from steps.daemon_lives import Cluster, Disk, Service
from support.prune_facts import make_site

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_a_clock_that_goes_as_it_should_did_not_jump():
    clock = ClockWatch()
    assert [clock.jumped(NOON + number * SECOND, 90 * SECOND + number * SECOND) for number in range(5)] == [None] * 5


def test_a_clock_that_was_set_says_how_far_and_then_goes_on():
    clock = ClockWatch()
    clock.jumped(NOON, timedelta(0))
    assert clock.jumped(NOON - timedelta(hours=3), SECOND) == -timedelta(hours=3) - SECOND
    assert clock.jumped(NOON - timedelta(hours=3) + SECOND, 2 * SECOND) is None
    assert clock.jumped(NOON + timedelta(hours=2), 3 * SECOND) == timedelta(hours=5) - 2 * SECOND


def test_a_host_that_slept_is_a_clock_that_was_set():
    """The clock that cannot be set stands still meanwhile on Linux; everything is late then, and runs."""
    clock = ClockWatch()
    clock.jumped(NOON, timedelta(0))
    assert clock.jumped(NOON + timedelta(hours=8), SECOND) is not None


def test_a_step_that_was_hours_away_runs_at_once_when_woken():
    ran = threading.Event()
    scheduler = BackgroundScheduler(timezone=UTC)
    later = datetime.now(UTC) + timedelta(hours=3)
    scheduler.add_job(ran.set, "interval", seconds=3600, next_run_time=later)
    scheduler.start()
    try:
        assert not ran.is_set()
        wake(scheduler, SECOND * 6)
        assert ran.wait(timeout=allow(10))
    finally:
        scheduler.shutdown()


def test_what_deletes_by_the_calendar_waits_a_day_after_a_jump():
    scheduler = BackgroundScheduler(timezone=UTC)
    for name in ("poll", "expire"):
        scheduler.add_job(int, "interval", hours=24, id=name, next_run_time=datetime.now(UTC) + timedelta(minutes=1))
    scheduler.start(paused=True)
    try:
        wake(scheduler, timedelta(hours=-3))
        soon, late = (scheduler.get_job(name).next_run_time - datetime.now(UTC) for name in ("poll", "expire"))
        assert soon <= timedelta(0)
        assert late > timedelta(hours=23)
    finally:
        scheduler.shutdown()


def test_a_machine_that_is_paused_for_its_backup_every_day_still_deletes_old_records(schedule):
    due = schedule._scheduler.get_job("expire").next_run_time
    schedule.repair(NOON, timedelta(0))
    assert schedule.repair(NOON + timedelta(seconds=41), SECOND) == 40 * SECOND
    assert schedule._scheduler.get_job("expire").next_run_time == due
    assert schedule._scheduler.get_job("poll").next_run_time <= datetime.now(UTC)


def test_what_deletes_by_date_does_not_run_before_a_jump_is_noticed(tmp_path):
    """The scheduler finds that it is due by the new time up to half a second before the daemon sees the jump."""
    service = Service(f"sqlite:///{tmp_path}/ckptd.sqlite3", Cluster(), Disk(), 0)
    clocks, ran = [(NOON, timedelta(0))], []
    try:
        parts = replace(service.parts, retention=make_site(tmp_path))
        schedule = Schedule(lambda step: ran.append(step.name), parts, lambda: clocks[-1])
    finally:
        service.parts.store.close()
    expire = schedule._scheduler.get_job("expire")
    schedule.repair(*clocks[-1])
    clocks.append((NOON + timedelta(days=400), 7 * SECOND))
    expire.func(*expire.args)
    schedule.repair(*clocks[-1])
    expire.func(*expire.args)  # the scheduler has started it before the repair delayed it
    assert ran == []
    tomorrow = (NOON + timedelta(days=401), timedelta(days=1, seconds=7))
    schedule.repair(*tomorrow)
    clocks.append(tomorrow)
    expire.func(*expire.args)
    assert ran == ["expire"], "at its first turn after the jump: another one may follow before the next"


@pytest.fixture
def schedule(tmp_path):
    """The daemon's own schedule, of steps that do nothing."""
    service = Service(f"sqlite:///{tmp_path}/ckptd.sqlite3", Cluster(), Disk(), 0)
    yield Schedule(lambda _step: None, replace(service.parts, retention=make_site(tmp_path)))
    service.parts.store.close()


def test_a_step_that_missed_fifty_years_of_runs_is_due_once_and_then_at_its_interval(schedule):
    """A host without a clock battery starts in 1970; to list every second since then takes hours and all memory."""
    late = NOON + timedelta(days=50 * 365)
    schedule.begin_interval("poll")
    jobs = schedule._scheduler.get_jobs()
    assert {job.id for job in jobs} == set(STEPS)
    for job in jobs:
        following = job.trigger.get_next_fire_time(NOON, late)
        assert timedelta(0) < following - late <= job.trigger.interval
        assert (following - NOON) % job.trigger.interval == timedelta(0)
        assert job.trigger.get_next_fire_time(NOON, NOON) == NOON + job.trigger.interval
