"""Attempts that follow one another and get nowhere: they burn the allocation."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core import history as facts
from ckptd.core import reach
from ckptd.core.health.interface import Speaker, not_whole, seconds
from ckptd.core.model import Attempt, EndCause, Evidence, Finding, RunHistory, Severity, Unknown

_OWN_CAUSES = frozenset({EndCause.REQUEUE, EndCause.FAILURE, EndCause.TIME_LIMIT, EndCause.UNKNOWN})


@dataclass(frozen=True, slots=True)
class RestartLoop:
    """Holds when `attempts` in a row, or `storm_attempts` within `storm_window`, saved nothing beyond what there was.

    Attempts that a preemption or a failed node broke off count only for the storm. The running one counts once it has
    run as long as the longest of those before it. Of attempts that ran at once only the latest counts.
    """

    name: ClassVar[str] = "restart-loop"
    attempts: int = 3
    storm_attempts: int = 5
    storm_window: timedelta = timedelta(minutes=30)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        job = facts.current_job(history)
        if job is None:
            return ()
        if not facts.was_read_whole(history):
            return not_whole(self.name)
        if history.is_cut and history.reaches is None:
            return Unknown(what=self.name, reason="what was saved before these attempts is no longer at hand")
        idle = _without_progress(history, now)
        own = [attempt for attempt in idle if attempt.ended_at is None or attempt.cause in _OWN_CAUSES]
        storm = [
            attempt
            for attempt in idle
            if now - attempt.started_at <= self.storm_window and attempt.cause is not EndCause.MAINTENANCE
        ]
        if len(own) < self.attempts and len(storm) < self.storm_attempts:
            return ()
        counted = own if len(own) >= self.attempts else storm
        good = facts.newest_good(history)
        ran = sum(((each.ended_at or now) - each.started_at for each in counted), timedelta(0))
        evidence: dict[str, Evidence] = {
            "attempts": len(counted),
            "attempts_in_window": len(storm),
            "window_seconds": seconds(self.storm_window),
            "first_started_at": counted[0].started_at.isoformat(),
            "ran_seconds": seconds(ran),
            "restart_count": job.restart_count,
            "causes": sorted({each.cause.value for each in counted if each.cause}),
            "newest_good": str(good.checkpoint.path) if good else None,
        }
        source = f"It should resume from {good.checkpoint.path}." if good else "There is no checkpoint to resume from."
        advice = (
            f"{len(counted)} attempts in a row saved nothing new. Hold the job (scontrol requeuehold {job.job_id}), "
            f"read its output and fix why it ends before it saves. {source}"
        )
        speaker = Speaker(self.name, history, tells=("user", "admin"))
        return (speaker.say(job, Severity.CRITICAL, evidence, advice),)


def _without_progress(history: RunHistory, now: datetime) -> list[Attempt]:
    """Return the latest attempts, one after another, that moved nothing on, oldest first."""
    idle: list[Attempt] = []
    reaches = reach.reaches_of(history)
    for place, attempt in reversed([*enumerate(history.attempts)]):
        if attempt.cause in {EndCause.COMPLETED, EndCause.CANCEL}:
            break
        if reach.moved_on(reaches[:place], reaches[place]):
            break
        if not idle or (attempt.ended_at is not None and attempt.ended_at <= idle[-1].started_at):
            idle.append(attempt)
    idle.reverse()
    ended = [each.ended_at - each.started_at for each in idle if each.ended_at is not None]
    return [
        each for each in idle if each.ended_at is not None or now - each.started_at >= max(ended, default=timedelta.max)
    ]
