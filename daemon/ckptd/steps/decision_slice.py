"""What the step `decide` remembers from one decision to the next."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core.model import RunKey
from ckptd.steps.awaited_scans import AwaitedScans
from ckptd.steps.clock_pause import ClockPause
from ckptd.steps.evaluated_runs import EvaluatedRuns
from ckptd.steps.open_flags import OpenFlags
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.queued_jobs import QueuedJobs
from ckptd.steps.results import LogLine
from ckptd.steps.unchanged_runs import SharedFacts

PAUSE_PER_RUN = timedelta(milliseconds=0.5)  # between two decisions: one about several scans costs less than several
PAUSE_PER_JOB = timedelta(milliseconds=0.02)  # a decision sorts all tracked jobs, such as many tasks of one run
SHARE_OF_GAP = 0.25  # so much of the time between two polls a decision waits at most after one
SHORTEST_WAIT = timedelta(seconds=1)  # the step runs once in this time
SHORTER = 0.4  # so much of it while scans fill the room for what decisions need not read back


@dataclass(slots=True)
class DecisionSlice:
    """State of this step alone."""

    failed_rules: dict[tuple[RunKey, str], Exception] = field(default_factory=dict)  # in each run's last evaluation
    evaluated: EvaluatedRuns = field(default_factory=EvaluatedRuns)
    flags: OpenFlags = field(default_factory=OpenFlags)
    compared_with: SharedFacts | None = None  # what all runs were last compared with
    decided_about: PolledQueue = field(default_factory=PolledQueue)
    compared_at: datetime | None = None
    decided_at: datetime | None = None
    polled_at: datetime | None = None  # the last poll that was noted
    poll_noted_at: datetime | None = None
    read_once: set[RunKey] = field(default_factory=set)  # from the database, whether or not they are recorded
    postponed: frozenset[RunKey] = frozenset()  # left to the next decision
    is_catching_up: bool = False  # some runs were left to a later decision, or until their first scan
    awaited: AwaitedScans = field(default_factory=AwaitedScans)
    queued_jobs: QueuedJobs = field(default_factory=lambda: QueuedJobs.sort(PolledQueue()))
    clock_pause: ClockPause = field(default_factory=ClockPause)
    must_evaluate_all: bool = False  # what was evaluated may be wrong by the new time

    def is_comparison_due(self, shared: SharedFacts, now: datetime, gap: timedelta) -> bool:
        """Whether anything but scans may have changed: what runs share, or what others have written."""
        is_recent = self.compared_at is not None and timedelta(0) <= now - self.compared_at < gap
        return not is_recent or not shared.is_same(self.compared_with)

    def must_decide(self, now: datetime, gap: timedelta) -> bool:
        """Whether the last comparison is so old that a decision is due although nothing is known to have changed."""
        return self.compared_at is not None and not timedelta(0) <= now - self.compared_at < gap

    def note_poll(self, polled_at: datetime | None, now: datetime) -> None:
        """Note when a poll was first seen here."""
        if polled_at != self.polled_at:
            self.polled_at, self.poll_noted_at = polled_at, now

    def must_pause(self, now: datetime, gap: timedelta, *, is_filling: bool) -> bool:
        """Whether the last decision was a moment ago: each one looks at all runs, and many would keep a core busy.

        So it is after a poll: the directories of jobs that started or ended are found and scanned within moments, and
        one decision about all of it costs less than one after each. Polls are `gap` apart.
        """
        if self.postponed or self.decided_at is None:
            return False
        runs = max(len(self.evaluated.by_run), len(self.sort_jobs(self.decided_about).by_run))
        pause = max(PAUSE_PER_RUN * runs, PAUSE_PER_JOB * len(self.decided_about.tracked))
        pause *= SHORTER if is_filling else 1
        wait = min(pause, gap * SHARE_OF_GAP)
        return _is_within(self.decided_at, pause, now) or (
            wait >= SHORTEST_WAIT and _is_within(self.poll_noted_at, wait, now)
        )

    def follow_clock(self, parts: Parts, now: datetime) -> tuple[LogLine, ...]:
        """Pause changes of flags while the clock cannot be trusted; then evaluate all runs; return what to log."""
        was_paused = self.clock_pause.is_active
        lines = self.clock_pause.update(parts.runner.read_elapsed, now)
        if was_paused and not self.clock_pause.is_active:
            self.must_evaluate_all, self.compared_at = True, None
        return lines

    def sort_jobs(self, queued: PolledQueue) -> QueuedJobs:
        """Return the open jobs of this queue, sorted once."""
        if self.queued_jobs.queued is not queued:
            self.queued_jobs = QueuedJobs.sort(queued)
        return self.queued_jobs


def _is_within(began_at: datetime | None, pause: timedelta, now: datetime) -> bool:
    return began_at is not None and timedelta(0) <= now - began_at < pause
