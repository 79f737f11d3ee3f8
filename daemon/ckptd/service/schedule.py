"""Gives each step of the daemon its own pace, whatever becomes of the clock."""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from ckptd.service.step_runner import Step

SEND = "send"  # the step that waits for relays, in a thread of its own
EXPIRE = "expire"  # the step that deletes by the calendar
EXPIRE_INTERVAL = timedelta(days=1)
EXPIRE_DELAY = timedelta(hours=1)  # after a start, so that a clock that is wrong then may be set right


def make_scheduler(
    paces: Mapping[str, tuple[Step, timedelta]], run: Callable[[str, Step], None]
) -> BackgroundScheduler:
    """Have `run` called with each step at its pace, at first at once.

    None overlaps itself, and one that is late runs once, not once for each miss.
    """
    scheduler = BackgroundScheduler(
        timezone=UTC,
        executors={"default": ThreadPoolExecutor(6), SEND: ThreadPoolExecutor(1)},
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )
    # max_instances makes the scheduler say that a step is still running; that is its purpose and no news
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    for name, (step, pace) in paces.items():
        scheduler.add_job(
            run,
            "interval",
            (name, step),
            seconds=pace.total_seconds(),
            id=name,
            next_run_time=datetime.now(UTC) + (EXPIRE_DELAY if name == EXPIRE else timedelta(0)),
            executor=SEND if name == SEND else "default",
        )
    return scheduler


def set_pace(scheduler: BackgroundScheduler, name: str, pace: timedelta) -> None:
    """Let a step run at this pace, next when so much time has passed from now."""
    scheduler.reschedule_job(name, trigger="interval", seconds=pace.total_seconds())


def wake(scheduler: BackgroundScheduler) -> None:
    """Let every step run at once and at its pace from now on, whatever the clock said when it was scheduled.

    What deletes by the calendar waits a day: the clock may be wrong only now.
    """
    for job in scheduler.get_jobs():
        delay = EXPIRE_INTERVAL if job.id == EXPIRE else timedelta(0)
        job.modify(next_run_time=datetime.now(UTC) + delay)
