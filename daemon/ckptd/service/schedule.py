"""Gives each step of the table its own interval, whatever becomes of the clock."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from ckptd.service.clock_jumps import ClockWatch
from ckptd.service.step_table import STEPS, TABLE, Step
from ckptd.steps.parts import Parts


class Schedule:
    """Has each step run at its interval, at first at once.

    None overlaps itself, and one that is late runs once, not once for each miss.
    """

    def __init__(self, run: Callable[[Step], None], parts: Parts) -> None:
        self._parts = parts
        self._clock = ClockWatch()
        own_threads = {step.name: ThreadPoolExecutor(1) for step in TABLE if step.has_own_thread}
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(6), **own_threads},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        # max_instances makes the scheduler say that a step is still running; that is its purpose and no news
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        for step in TABLE:
            self._scheduler.add_job(
                run,
                "interval",
                (step,),
                seconds=step.interval(parts).total_seconds(),
                id=step.name,
                next_run_time=datetime.now(UTC) + step.first_delay,
                executor=step.name if step.has_own_thread else "default",
            )

    def start(self) -> None:
        self._scheduler.start()

    def stop(self) -> None:
        """Begin no further step; those that run are not waited for."""
        self._scheduler.shutdown(wait=False)

    def change_parts(self, parts: Parts) -> None:
        """Take new intervals, each from now on; those that stay are not begun again."""
        before, self._parts = self._parts, parts
        for step in TABLE:
            if step.interval(parts) != step.interval(before):
                self.begin_interval(step.name)

    def begin_interval(self, name: str) -> None:
        """Let a step run next when its interval has passed from now."""
        seconds = STEPS[name].interval(self._parts).total_seconds()
        self._scheduler.reschedule_job(name, trigger="interval", seconds=seconds)

    def list_intervals(self) -> dict[str, timedelta]:
        """Return how often each step runs."""
        return {job.id: job.trigger.interval for job in self._scheduler.get_jobs()}

    def repair(self, now: datetime, elapsed: timedelta) -> timedelta | None:
        """Run every step at once after the clock was set, for APScheduler waits for an hour of the day.

        To be called often; `elapsed` is the time by a clock that cannot be set. Returns how far the clock was set.
        """
        jump = self._clock.jumped(now, elapsed)
        if jump is not None:
            wake(self._scheduler)
        return jump


def wake(scheduler: BackgroundScheduler) -> None:
    """Let every step run at once and at its interval from now on, whatever the clock said when it was scheduled.

    What deletes by the calendar waits for its whole interval: the clock may be wrong only now.
    """
    for job in scheduler.get_jobs():
        is_late = job.id in STEPS and STEPS[job.id].first_delay > timedelta(0)
        delay = job.trigger.interval if is_late else timedelta(0)
        job.modify(next_run_time=datetime.now(UTC) + delay)
