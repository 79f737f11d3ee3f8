"""Runs each step of the table at its own interval, also after the clock was set."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from ckptd.core.clock_jumps import ClockWatch
from ckptd.service.step_table import STEPS, TABLE, Step
from ckptd.steps.parts import Parts

MIN_JUMP_OF_DATES = timedelta(minutes=5)  # records are kept for days


class SkippingInterval(IntervalTrigger):  # type: ignore[misc]  # APScheduler has no types
    """An interval of which missed times are skipped.

    APScheduler lists every missed time before it leaves out all but one, and blocks its other callers meanwhile. After
    the clock was set forward by days, that takes seconds; by decades, hours and all memory.
    """

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        following: datetime | None = super().get_next_fire_time(previous_fire_time, now)
        if previous_fire_time is None or following is None or following > now:
            return following
        interval: timedelta = self.interval
        return following + ((now - following) // interval + 1) * interval


def _read_clocks() -> tuple[datetime, timedelta]:
    return datetime.now(UTC), timedelta(seconds=time.monotonic())


class Schedule:
    """Runs each step at its interval, and the first time at once.

    No step overlaps itself, and a late one runs once, not once for each run that it missed.
    """

    def __init__(
        self,
        run: Callable[[Step], None],
        parts: Parts,
        read_clocks: Callable[[], tuple[datetime, timedelta]] = _read_clocks,
    ) -> None:
        """`read_clocks` returns the time, and that of a monotonic clock."""
        self._run = run
        self._parts = parts
        self._clock = ClockWatch()
        self._read_clocks = read_clocks
        self._clock_lock = threading.Lock()
        self._jumped_at: timedelta | None = None  # by the monotonic clock
        own_threads = {step.name: ThreadPoolExecutor(1) for step in TABLE if step.has_own_thread}
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(6), **own_threads},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        # the scheduler warns whenever max_instances prevents a step from overlapping itself; that is intended
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        for step in TABLE:
            self._scheduler.add_job(
                self._run_by_date if _deletes_by_date(step) else run,
                SkippingInterval(seconds=step.interval(parts).total_seconds(), timezone=UTC),
                (step,),
                id=step.name,
                next_run_time=datetime.now(UTC) + step.first_delay,
                executor=step.name if step.has_own_thread else "default",
            )

    def start(self) -> None:
        self._scheduler.start()

    def stop(self) -> None:
        """Start no further step, and do not wait for running ones."""
        self._scheduler.shutdown(wait=False)

    def _run_by_date(self, step: Step) -> None:
        """Run a step that deletes by date, unless the clock was just set.

        APScheduler may start such a step by the new time before `repair` has noticed the jump and delayed the step.
        """
        now, elapsed = self._read_clocks()
        with self._clock_lock:
            is_new = _moves_dates(self._clock.measure(now, elapsed))
            is_recent = self._jumped_at is not None and elapsed - self._jumped_at < step.first_delay
        if not is_new and not is_recent:
            self._run(step)

    def change_parts(self, parts: Parts) -> None:
        """Change intervals, from now on; a step whose interval stays the same keeps its next time."""
        before, self._parts = self._parts, parts
        for step in TABLE:
            if step.interval(parts) != step.interval(before):
                self.begin_interval(step.name)

    def begin_interval(self, name: str) -> None:
        """Schedule a step's next run one interval from now; after `stop`, do nothing."""
        seconds = STEPS[name].interval(self._parts).total_seconds()
        with suppress(JobLookupError):
            self._scheduler.reschedule_job(name, trigger=SkippingInterval(seconds=seconds, timezone=UTC))

    def run_soon(self, name: str) -> None:
        """Run a step now, unless it is running, and then at its interval; after `stop`, do nothing."""
        with suppress(JobLookupError):
            self._scheduler.modify_job(name, next_run_time=datetime.now(UTC))

    def list_intervals(self) -> dict[str, timedelta]:
        """Return the interval of each step."""
        return {job.id: job.trigger.interval for job in self._scheduler.get_jobs()}

    def repair(self, now: datetime, elapsed: timedelta) -> timedelta | None:
        """Run every step at once if the clock was set, because APScheduler waits for a wall-clock time.

        Call it often; `elapsed` is the time of a monotonic clock. Return how far the clock was set.
        """
        with self._clock_lock:
            jump = self._clock.jumped(now, elapsed)
            if _moves_dates(jump):
                self._jumped_at = elapsed
        if jump is not None:
            wake(self._scheduler, jump)
        return jump


def wake(scheduler: BackgroundScheduler, jump: timedelta) -> None:
    """Run every step at once, and then at its interval, counted from now.

    Steps that delete by date wait for a whole interval, because the clock may be wrong at this moment. A short jump
    leaves them as they are: a virtual machine that is paused for its backup every day would never run them.
    """
    for job in scheduler.get_jobs():
        if job.id not in STEPS or not _deletes_by_date(STEPS[job.id]):
            job.modify(next_run_time=datetime.now(UTC))
        elif _moves_dates(jump):
            job.modify(next_run_time=datetime.now(UTC) + job.trigger.interval)


def _moves_dates(jump: timedelta | None) -> bool:
    return jump is not None and abs(jump) >= MIN_JUMP_OF_DATES


def _deletes_by_date(step: Step) -> bool:
    return step.first_delay > timedelta(0)
