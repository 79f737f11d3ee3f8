"""When the daemon's schedule runs a step besides at its interval."""

import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace

import pytest
from apscheduler.schedulers import SchedulerNotRunningError

from ckptd.service.schedule import Schedule
from demo.patience import allow
from steps.daemon_lives import Cluster, Disk, Service
from support.mail_server import wait_until
from support.prune_facts import make_site


@pytest.fixture
def runs():
    """For each step, what says that it ran."""
    return defaultdict(lambda: threading.Semaphore(0))


@pytest.fixture
def schedule(tmp_path, runs):
    service = Service(f"sqlite:///{tmp_path}/ckptd.sqlite3", Cluster(), Disk(), 0)
    parts = replace(service.parts, retention=make_site(tmp_path))
    made = Schedule(lambda step: runs[step.name].release(), parts)
    made.start()
    yield made
    with suppress(SchedulerNotRunningError):
        made.stop()
    service.parts.store.close()


def test_a_step_with_more_to_do_runs_before_its_interval_is_over(schedule, runs):
    assert schedule.list_intervals()["poll"].total_seconds() >= 60
    assert runs["poll"].acquire(timeout=allow(10))
    for _ in range(3):
        wait_until(lambda: asks_and_runs(schedule, runs), 10)


def asks_and_runs(schedule, runs):
    """Whether a step ran soon after it was asked for; while the run before is ending, it does not."""
    schedule.run_soon("poll")
    return runs["poll"].acquire(timeout=0.5)


def test_nothing_is_scheduled_after_the_end(schedule, runs):
    assert runs["poll"].acquire(timeout=allow(10))
    schedule.stop()
    schedule.run_soon("poll")
    schedule.begin_interval("poll")
    assert not runs["poll"].acquire(timeout=0.3)
