"""Owners whose scans do not end delay the scans of others by no more than the patience with each wave of them."""

import threading

import pytest

from ckptd.service.scan_pool import ScanPool
from demo.patience import allow
from support.mail_server import wait_until

AT_WORK, MOST = 8, 40


@pytest.fixture
def stuck():
    """What ends the tasks that hang."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def pool():
    made = ScanPool(AT_WORK, MOST, patience_seconds=0.2)
    yield made
    made.shutdown()


@pytest.mark.parametrize("colluders", [AT_WORK, 3 * AT_WORK])
def test_scans_that_hang_leave_their_places_to_others(pool, stuck, colluders):
    for _ in range(colluders):
        pool.submit(stuck.wait)
    done = threading.Event()
    pool.submit(done.set)
    assert done.wait(allow(30))
    assert not stuck.is_set()


def test_no_more_than_the_places_are_at_work_at_a_time(stuck):
    pool = ScanPool(AT_WORK, MOST, patience_seconds=3600)
    started = []

    def work():
        started.append(1)
        stuck.wait()

    for _ in range(3 * AT_WORK):
        pool.submit(work)
    wait_until(lambda: len(started) >= AT_WORK)
    assert len(started) == AT_WORK
    stuck.set()
    wait_until(lambda: len(started) == 3 * AT_WORK)
    pool.shutdown()


def test_a_place_is_given_up_once(pool):
    """One that ends after its patience does not free a second place."""
    ends = threading.Event()
    pool.submit(ends.wait)
    wait_until(lambda: pool._places._value == AT_WORK)  # given up
    ends.set()
    seen = threading.Event()
    pool.submit(seen.set)
    assert seen.wait(allow(30))
    wait_until(lambda: pool._places._value == AT_WORK)


def test_a_task_that_fails_frees_its_place(pool):
    def fail():
        raise OSError("no")

    for _ in range(2 * AT_WORK):
        pool.submit(fail)
    done = threading.Event()
    pool.submit(done.set)
    assert done.wait(allow(30))


def test_after_a_shutdown_nothing_that_waits_for_a_place_is_begun(stuck):
    pool = ScanPool(AT_WORK, MOST, patience_seconds=3600)
    started = []

    def work():
        started.append(1)
        stuck.wait()

    for _ in range(MOST):
        pool.submit(work)
    wait_until(lambda: len(started) == AT_WORK)
    pool.shutdown()
    stuck.set()
    threads = list(pool._threads._threads)
    for each in threads:
        each.join(allow(30))
    assert not any(each.is_alive() for each in threads)
    assert len(started) == AT_WORK
