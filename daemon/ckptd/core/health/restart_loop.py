"""Detect consecutive attempts that make no progress: they fail, or are interrupted before they save again."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import ClassVar

from ckptd.core.forecast.projection import MARGIN
from ckptd.core.health.at_risk import signal_seconds
from ckptd.core.health.interface import FindingBuilder, not_whole, seconds
from ckptd.core.model import Attempt, EndCause, Evidence, Finding, Job, RunHistory, Scan, Severity, Unknown
from ckptd.core.runs import attempt_progress, copied_checkpoints
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.runs.checkpoint_readers import is_reader
from ckptd.core.runs.observations import INTERRUPTIONS
from ckptd.core.runs.possible_saves import find_possible_save
from ckptd.core.runs.resumable import may_be_results

_OWN_CAUSES = frozenset({EndCause.REQUEUE, EndCause.FAILURE, EndCause.TIME_LIMIT, EndCause.UNKNOWN})


@dataclass(frozen=True, slots=True)
class RestartLoop:
    """Flag a run if `attempts` attempts in a row, or `storm_attempts` within `storm_window`, saved no further progress.

    Example: epoch 7 is saved, and three attempts fail before they save epoch 8. The flag is critical.

    - **Attempts that preemption or a node failure ended**: if fewer than `attempts` had another cause, the flag is a
      warning. It then opens only if the attempts saved nothing at all and ran for at least `min_loss` altogether. It
      does not open if there is no checkpoint (`restarted-without-checkpoint` reports that), or if the files may be
      results.
    - **Which attempts count**: the running one, once it has run as long as the longest one before it; of attempts that
      ran at the same time, only the latest. Attempts that ckptd interrupted do not count.
    - **A job that may be fixed**, because it was released from a hold or submitted after the others had failed, opens
      no critical flag until it has failed itself. If the longest earlier attempt ran for at least `storm_window`, the
      flag becomes critical once this one has run as long.
    - **If it is unknown where the job saves**, only `storm_attempts` count, because it may have saved elsewhere. The
      same applies if these attempts wrote files of unknown formats, which may be checkpoints.
    """

    name: ClassVar[str] = "restart-loop"
    attempts: int = 3
    storm_attempts: int = 5
    storm_window: timedelta = timedelta(minutes=30)
    min_loss: timedelta = timedelta(minutes=10)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        job = facts.current_job(history)
        if job is None:
            return ()
        if not facts.was_read_whole(history):
            return not_whole(self.name)
        if history.is_truncated and history.reaches is None:
            return Unknown(what=self.name, reason="the checkpoints saved before these attempts are no longer on record")
        idle = _without_progress(history, now)
        counted = self._count(history, idle, now)
        is_own = bool(counted)
        if not is_own and not is_reader(history, job):
            counted = self._list_interrupted(history, idle, now)
        if not counted:
            return ()
        is_retried = is_own and self._was_retried_by_user(history, job, idle, now)
        if is_retried and not facts.is_flagged(history, self.name, job):
            return ()
        good = facts.newest_complete(history)
        ran = sum((_duration(each, now) for each in counted), timedelta(0))
        evidence: dict[str, Evidence] = {
            "attempts": len(counted),
            "attempts_in_window": len(self._list_storm(idle, now)),
            "window_seconds": seconds(self.storm_window),
            "first_started_at": counted[0].started_at.isoformat(),
            "ran_seconds": seconds(ran),
            "longest_seconds": seconds(max(_duration(each, now) for each in counted)),
            "is_interrupted": not is_own,
            "restart_count": job.restart_count,
            "causes": sorted({each.cause.value for each in counted if each.cause}),
            "newest_good": str(good.checkpoint.path) if good else None,
            "held_by": _holder(history, job),
            "array_job_id": job.array_job_id,
            "directory": history.key.directory if history.key.is_located else None,
            "located_by": history.located_by,
            "signal_seconds": signal_seconds(measure_rhythm(history).save_time, MARGIN),
        }
        builder = FindingBuilder(self.name, history, audience=("user", "admin") if is_own else ("user",))
        return (builder.make_finding(job, Severity.CRITICAL if is_own else Severity.WARNING, evidence),)

    def list_requeued(self, history: RunHistory, job: Job, now: datetime) -> list[Attempt]:
        """Return the attempts because of which a job is to be held, oldest first; empty if it is not.

        Only attempts of this job count that ended since it was last held or submitted, and only if its directory was
        scanned since.
        """
        scan = history.scan
        if not isinstance(scan, Scan) or not scan.is_whole or (history.is_truncated and history.reaches is None):
            return []
        own = facts.attempts_since_hold(history, job)
        ended = [each for each in _without_progress(history, now) if each in own and each.ended_at is not None]
        if not ended or ended[-1].ended_at is None or scan.scanned_at < ended[-1].ended_at:
            return []
        return self._count(history, ended, now)

    def _count(self, history: RunHistory, idle: list[Attempt], now: datetime) -> list[Attempt]:
        """Return the attempts that form a loop; empty if there are too few."""
        own = [attempt for attempt in idle if attempt.ended_at is None or attempt.cause in _OWN_CAUSES]
        storm = self._list_storm(idle, now)
        if len(own) >= self.attempts and history.key.is_located and not find_possible_save(history, own[0].started_at):
            return own
        return storm if len(storm) >= self.storm_attempts else []

    def _list_interrupted(self, history: RunHistory, idle: list[Attempt], now: datetime) -> list[Attempt]:
        """Return the latest attempts that ended before any save, most of them interrupted; empty if little is lost."""
        reaches = zip(history.attempts, attempt_progress.reaches_of(history), strict=True)
        saves = {(each.job, each.restart_count): reach.save_count for each, reach in reaches}
        over = [each for each in idle if each.ended_at is not None and each.cause in _OWN_CAUSES | INTERRUPTIONS]
        ended = [*takewhile(lambda each: not saves[each.job, each.restart_count], reversed(over))][::-1]
        ran = sum((_duration(each, now) for each in ended), timedelta(0))
        if len(ended) < self.attempts or ran < self.min_loss or not history.key.is_located or may_be_results(history):
            return []
        return ended if copied_checkpoints.had_complete(history, ended[-1].started_at) else []

    def _list_storm(self, idle: list[Attempt], now: datetime) -> list[Attempt]:
        return [
            attempt
            for attempt in idle
            if now - attempt.started_at <= self.storm_window and attempt.cause is not EndCause.MAINTENANCE
        ]

    def _was_retried_by_user(self, history: RunHistory, job: Job, idle: list[Attempt], now: datetime) -> bool:
        """Return whether a person released or submitted the job after the earlier failures and it has not failed."""
        own = [each for each in facts.attempts_since_hold(history, job) if each in idle]
        others = [each for each in idle if each not in own and each.ended_at is not None]
        if not others or job.is_held or self._has_failed(own, now):
            return False
        longest = max(_duration(each, now) for each in others)
        if longest >= self.storm_window and any(_duration(each, now) >= longest for each in own):
            return False  # it has run as long as the earlier attempts, and those did not fail at once
        failed_at = max(each.ended_at for each in others if each.ended_at is not None)
        submitted_at = job.submitted_at
        if job.restart_count:  # a requeue resets the submit time
            submitted_at = own[0].job.first_seen_at if own else None
        is_new = submitted_at is not None and submitted_at > failed_at
        return is_new or facts.hold_of(history, job) is not None

    def _has_failed(self, own: list[Attempt], now: datetime) -> bool:
        by_itself = any(each.ended_at is not None and each.cause in _OWN_CAUSES for each in own)
        return by_itself or len(self._list_storm(own, now)) >= self.storm_attempts


def _duration(attempt: Attempt, now: datetime) -> timedelta:
    return (attempt.ended_at or now) - attempt.started_at


def _holder(history: RunHistory, job: Job) -> str | None:
    if facts.is_held_by_ckptd(history, job):
        return "ckptd"
    return "somebody else" if job.is_held else None


def _without_progress(history: RunHistory, now: datetime) -> list[Attempt]:
    """Return the latest consecutive attempts without progress, oldest first."""
    idle: list[Attempt] = []
    reaches = attempt_progress.reaches_of(history)
    for place, attempt in reversed([*enumerate(history.attempts)]):
        if attempt.cause in {EndCause.COMPLETED, EndCause.CANCEL}:
            break
        if attempt_progress.moved_on(reaches[:place], reaches[place]):
            break
        if facts.is_broken_off(history, attempt):
            continue
        if not idle or (attempt.ended_at is not None and attempt.ended_at <= idle[-1].started_at):
            idle.append(attempt)
    idle.reverse()
    ended = [_duration(each, now) for each in idle if each.ended_at is not None]
    if not ended:
        return []
    return [each for each in idle if each.ended_at is not None or _duration(each, now) >= max(ended)]
