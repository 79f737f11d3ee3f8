"""Work that the time limit will take, because no further checkpoint will be complete before it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.forecast import projection, risk
from ckptd.core.health.interface import Speaker, bounded, not_whole, seconds
from ckptd.core.model import Attempt, Evidence, Finding, Job, LimitSignal, RunHistory, Scan, Severity, Unknown
from ckptd.core.model.save_cadence import SaveRhythm
from ckptd.core.queue import maintenance
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.text.formatting import format_count, format_duration, format_instant


@dataclass(frozen=True, slots=True)
class AtRisk:
    """Holds when the limit will take work and at most `notice_saves` more saves are expected to be complete before it.

    It is told while the user can still act, one interval or more ahead, and only where the loss is at least
    `min_loss` and `min_loss_share` of the limit; half of it to hold on. An info until its chance is `min_chance`: many
    jobs end by themselves before their limit. Critical once certain: less time is left than a save takes, and none is
    being written. A maintenance reservation of its nodes counts as a limit, but is never certain to end it.
    """

    name: ClassVar[str] = "at-risk"
    margin: timedelta = projection.MARGIN
    min_loss: timedelta = timedelta(minutes=5)
    min_loss_share: float = bounded(0.01, least=0, most=1)
    notice_saves: int = bounded(1, least=0)
    min_chance: float = bounded(0.9, least=0, most=1)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        if not facts.was_read_whole(history):
            return not_whole(self.name)
        findings = (self._judge(history, job, now) for job in facts.running_jobs(history))
        return tuple(finding for finding in findings if finding)

    def _judge(self, history: RunHistory, job: Job, now: datetime) -> Finding | None:
        attempt = facts.attempt_of(history, job)
        end = maintenance.next_end(history, job, now)
        if attempt is None or end is None:
            return None
        ends_at, reservation = end
        time_left = max(ends_at - now, timedelta(0))
        min_loss = worth_telling = max(self.min_loss, (job.time_limit or timedelta(0)) * self.min_loss_share)
        notice_saves, next_caution = self.notice_saves, projection.NEXT_CAUTION
        if facts.is_flagged(history, self.name, job):
            min_loss, notice_saves, next_caution = min_loss / 2, notice_saves + 1, projection.CAUTION
        expected = projection.at_limit(history, attempt, ends_at, now, margin=self.margin, next_caution=next_caution)
        if expected is None or expected.lost < min_loss or expected.saves_that_fit > notice_saves:
            return None
        rhythm = measure_rhythm(history)
        interval = rhythm.step_interval or timedelta(0)
        if expected.saves_that_fit == 0 and time_left > interval * (self.notice_saves + 1):
            return None  # it has stopped saving, long before its limit: another rule's
        asked = history.signals.get(job.job_id)
        is_saver = reservation is None and projection.saves_before_limit(
            history, tolerance=worth_telling, asked=asked, is_signalled=job.job_id in history.signalled
        )
        due_at = projection.save_due_at(ends_at, history.signalled.get(job.job_id), asked, rhythm) if is_saver else None
        is_certain = expected.lost >= worth_telling and self._is_certain(history, ends_at, rhythm, due_at)
        if not is_certain and (is_saver or self._reaches_goal(history, attempt, ends_at, now)):
            return None
        chance = risk.running_on(history, attempt, ends_at, now, margin=self.margin)
        chance *= risk.losing(expected, rhythm, ends_at, worth_telling)
        if reservation is None:
            chance *= risk.not_saving_at_the_end(history, tolerance=worth_telling, asked=asked)
        severity = Severity.WARNING if chance >= self.min_chance else Severity.INFO
        severity = Severity.CRITICAL if is_certain and reservation is None else severity
        evidence = {**self._evidence(job, expected, rhythm, time_left, now), "chance": round(chance, 3)}
        evidence["asked_signal_seconds"] = asked.lead_seconds if asked else None
        advice = self._advice(job, expected, ends_at, rhythm, asked)
        if reservation is not None:
            evidence["maintenance"] = reservation.name
            advice = (
                f"The nodes of this job are reserved for maintenance ({reservation.name}) from "
                f"{format_instant(ends_at)} on, before its limit. Slurm lets it run, but nodes may be taken down, and "
                f"{format_duration(expected.lost)} of work with them. Save before that, or ask an administrator "
                "whether it may go on."
            )
        return Speaker(self.name, history).say(job, severity, evidence, advice)

    def _is_certain(self, history: RunHistory, ends_at: datetime, rhythm: SaveRhythm, due_at: datetime | None) -> bool:
        """Whether no save can be complete any more, as of the last look at the directory.

        Saves that nobody saw being written are short: one that follows a signal may come until it is due.
        """
        assert isinstance(history.scan, Scan)
        if facts.being_written(history):
            return False
        scanned_at = history.scan.scanned_at
        if rhythm.least_save_time:
            return ends_at - scanned_at <= rhythm.least_save_time
        return ends_at - scanned_at <= self.margin and (due_at is None or scanned_at >= due_at)

    def _reaches_goal(self, history: RunHistory, attempt: Attempt, ends_at: datetime, now: datetime) -> bool:
        goal = projection.toward_goal(history, attempt, ends_at, now, margin=self.margin)
        return goal is not None and goal.done_at is not None and goal.done_at + self.margin <= ends_at

    def _evidence(
        self, job: Job, expected: projection.LimitForecast, rhythm: SaveRhythm, time_left: timedelta, now: datetime
    ) -> dict[str, Evidence]:
        return {
            "time_left_seconds": seconds(time_left),
            "next_checkpoint_in_seconds": seconds(expected.next_at - now),
            "saves_that_fit": expected.saves_that_fit,
            "interval_seconds": seconds(rhythm.interval),
            "interval_spread_seconds": seconds(rhythm.interval_spread),
            "intervals_known": rhythm.interval_count,
            "save_seconds": seconds(rhythm.save_time),
            "will_be_lost_seconds": seconds(expected.lost),
            "signal_seconds": signal_seconds(rhythm.save_time, self.margin, job.time_limit),
        }

    def _advice(
        self,
        job: Job,
        expected: projection.LimitForecast,
        ends_at: datetime,
        rhythm: SaveRhythm,
        asked: LimitSignal | None,
    ) -> str:
        needed = signal_seconds(rhythm.save_time, self.margin, job.time_limit)
        if asked is None:
            how = (
                f"Let Slurm warn the next job early enough to save (#SBATCH --signal=B:USR1@{needed}, and in the "
                "script a trap for USR1 that has the program save: without one the signal ends the job)"
            )
        elif rhythm.save_time is not None and asked.lead_seconds < rhythm.save_time.total_seconds():
            how = (
                f"Its script asks Slurm for {asked.word} {asked.lead_seconds} s before it, too late for a save: "
                f"#SBATCH --signal={asked.word}@{needed}"
            )
        else:
            how = (
                f"Its script asks Slurm for {asked.word} {asked.lead_seconds} s before it, but no save was seen to "
                "follow: see whether the signal gets to the program (B: is for the batch shell alone) and makes it save"
            )
        return f"{_foretell(expected)} {how}, or save more often. {self._extend(job, expected, ends_at, rhythm)}"

    def _extend(self, job: Job, expected: projection.LimitForecast, ends_at: datetime, rhythm: SaveRhythm) -> str:
        """Say what would let this very job save once more."""
        once_more_at = expected.next_at + (rhythm.step_interval or timedelta(0)) * expected.saves_that_fit
        minutes = max(math.ceil((once_more_at + self.margin - ends_at) / timedelta(minutes=1)), 1)
        return (
            f"For this job ask an administrator for {format_duration(timedelta(minutes=minutes))} more: "
            f"scontrol update JobId={job.slurm_name} TimeLimit=+{minutes}."
        )


def _foretell(expected: projection.LimitForecast) -> str:
    lost = format_duration(expected.lost)
    if not expected.saves_that_fit:
        return f"The next checkpoint will not be complete before the time limit, which will take {lost} of work."
    fit = f"{format_count(expected.saves_that_fit, 'more save')} {'fits' if expected.saves_that_fit == 1 else 'fit'}"
    return f"Only {fit} before the time limit, which then takes {lost} of work."


def signal_seconds(save_time: timedelta | None, margin: timedelta, limit: timedelta | None = None) -> int:
    """Return how long before its limit a job should be warned, in whole minutes where the save time is not known.

    Half of the measured save time and the margin come on top of it, and 60 s because slurmctld acts about every 30 s.
    Never more than half of the limit: Slurm would send it at the start.
    """
    needed = 600
    if save_time is not None:
        needed = int(save_time.total_seconds() * projection.SAVE_MARGIN + margin.total_seconds()) + 60
    return needed if limit is None else min(needed, int(limit.total_seconds() / 2))
