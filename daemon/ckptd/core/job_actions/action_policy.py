"""Decides which actions to take on jobs, and why; carries out none.

The site must allow every action for the job's partition; signals and resubmissions also need a setting of the user.
Each action has a unique name. Once an action is recorded under its name, it is never repeated, whatever its outcome.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple, TypedDict

from ckptd.core.forecast import projection
from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.job_actions import resubmit_policy, sbatch_command
from ckptd.core.job_actions.hourly_limit import has_room
from ckptd.core.job_actions.resubmit_policy import ResubmitDecision, TimedOutRun
from ckptd.core.model import (
    RUNNING_STATES,
    SUSPENDED_STATES,
    Attempt,
    Hold,
    Job,
    JobKey,
    JobState,
    RecordedCheckpoint,
    ResubmitRefusal,
    RunHistory,
    RunKey,
    RunRecord,
    Unknown,
)
from ckptd.core.queue import federation
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.runs.user_settings import parse_signal

SUMMARY_PREFIX = "ckptd: "
MAX_SUMMARY = 200
SUMMARY_INTERVAL = timedelta(minutes=5)
_SUMMARISED = RUNNING_STATES | SUSPENDED_STATES | {JobState.PENDING}
DONE = "done"  # the outcome of an act that Slurm did
BREAKS_OFF = "breaks off"  # the word of a hold that ends an attempt
_SAVED = re.compile(r"newest checkpoint .*, (\d+-\d\d-\d\d \d\d):\d\d UTC$")
_STATED_SIGNAL = re.compile(r"(?:^|[\s,;])ckpt-signal=([A-Z0-9:]+)(?=$|[\s,;])")
_HOLD_NAME = re.compile(r"hold-job/(\d+)@(\d+\.\d{6})/(\d+)", re.ASCII)


class ActionKind(StrEnum):
    """The kinds of actions, by their names in the audit table."""

    SIGNAL = "signal-job"
    HOLD = "hold-job"
    SUMMARY = "write-summary"
    RESUBMIT = "resubmit-job"


class DeferReason(StrEnum):
    """Why a due action is deferred."""

    LIMIT = "limit"  # as many as the site allows were done within the hour
    SLURM = "slurm"  # it does not answer


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionPermits:
    """The site's settings: the partitions for each kind of action, as shell patterns, and the limits."""

    partitions: Mapping[ActionKind, tuple[str, ...]]
    signal_margin: timedelta = timedelta(seconds=60)
    min_loss: timedelta = timedelta(minutes=5)
    max_resubmits: int = 10
    max_per_cycle: int = 20
    max_per_hour: int = 200

    @property
    def allows_any(self) -> bool:
        return any(self.partitions.values())

    def allows(self, kind: ActionKind, partition: str) -> bool:
        """Whether the site allows the action; a job pending in several partitions needs all of them."""
        names = [name for name in partition.split(",") if name]
        patterns = self.partitions.get(kind, ())
        return bool(names) and all(any(fnmatchcase(name, pattern) for pattern in patterns) for name in names)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobAction:
    """One planned action. `name` is unique."""

    kind: ActionKind
    name: str
    run: RunKey
    job: Job
    word: str = ""  # the signal as declared, the summary's text, or whether a hold ends an attempt
    save_time: timedelta = timedelta(0)  # of a signal: what a save is given, by what saves took
    number: int = 0  # of a resubmission: the how many-th
    mark: str = ""  # of a resubmission: what its job is known by
    reasons: tuple[str, ...] = ()


class _SiteLimits(TypedDict):
    is_permitted: bool
    most: int


class ActionChoice(NamedTuple):
    """The actions to take now, and those deferred by the limit per hour."""

    actions: tuple[JobAction, ...]
    deferred: tuple[JobAction, ...]


def declared_signal(history: RunRecord, job: Job) -> str | None:
    """Return the signal on which a job saves: `ckpt-signal=` in its comment, otherwise from `.ckptd.toml`."""
    stated = _STATED_SIGNAL.search(job.comment)
    return parse_signal(stated[1] if stated else history.user_settings.signal or "")


def list_signalled(history: RunRecord, permits: ActionPermits) -> dict[int, timedelta]:
    """Return the jobs that ckptd will signal, and how long before their limit."""
    found = [job for job in history.jobs if permits.allows(ActionKind.SIGNAL, job.partition)]
    wanting = [job for job in found if declared_signal(history, job)]
    lead = _save_time(history) + permits.signal_margin if wanting else permits.signal_margin
    return {job.job_id: lead for job in wanting}


def is_signal_due(history: RunRecord, signalled: Mapping[int, timedelta], now: datetime) -> bool:
    """Whether a job is so close to its limit that ckptd has sent its signal, or tried to."""
    return any(
        job.ends_at is not None and job.ends_at - now <= signalled[job.job_id]
        for job in history.jobs
        if job.job_id in signalled
    )


def without_failed(
    history: RunRecord, signalled: Mapping[int, timedelta], outcomes: Mapping[str, str | None]
) -> dict[int, timedelta]:
    """Return the jobs that ckptd will signal, except those whose signal could not be sent."""
    failed = {name for name, outcome in outcomes.items() if outcome and outcome.startswith("failed")}
    attempts = {job.job_id: facts.attempt_of(history, job) for job in history.jobs}
    names = {job_id: _name(ActionKind.SIGNAL, attempt) for job_id, attempt in attempts.items() if attempt}
    return {job_id: lead for job_id, lead in signalled.items() if names.get(job_id) not in failed}


def _save_time(history: RunRecord) -> timedelta:
    """Return the time reserved for a save after a signal."""
    return (measure_rhythm(history).save_time or timedelta(0)) * projection.SAVE_MARGIN


def plan(
    histories: Iterable[RunHistory],
    finished: Mapping[RunKey, TimedOutRun],
    permits: ActionPermits,
    now: datetime,
    *,
    loop_rule: Callable[[RunHistory], RestartLoop | None],
) -> tuple[JobAction, ...]:
    """Return every due action, most urgent kinds first; `choose` removes those that were already taken.

    `loop_rule` returns the thresholds of `restart-loop` for a run.
    """
    if not permits.allows_any:
        return ()
    actions: list[JobAction] = []
    for history in histories:
        for job in history.jobs:
            attempt = facts.attempt_of(history, job)
            actions += _plan_signal(history, job, attempt, permits, now)
            actions += _plan_hold(history, job, loop_rule(history), permits, now)
            actions += _plan_summary(history, job, permits, now)
        if history.key in finished:
            actions += _plan_resubmit(history, finished[history.key], permits)
    order = list(ActionKind)
    return tuple(sorted(actions, key=lambda act: order.index(act.kind)))


def find_standing(
    history: RunRecord, finished: TimedOutRun | None, permits: ActionPermits
) -> ResubmitRefusal | Unknown | None:
    """Return why a run is not resubmitted; Unknown if its end is no longer in memory."""
    if history.jobs:
        return None
    if finished is None:
        return Unknown(what="resubmission", reason="the end of the run is not remembered")
    name = _name(ActionKind.RESUBMIT, finished.attempt)
    return resubmit_policy.stand(history, finished, name, **_find_site_limits(finished, permits))


def choose(
    actions: Iterable[JobAction], done: Collection[str], recent: Mapping[tuple[str, int], int], permits: ActionPermits
) -> ActionChoice:
    """Return the actions to take now, without recorded and duplicate ones, within the site's limits.

    `recent` counts the actions of the last hour by kind and owner. Each kind has its own limit; one owner gets at most
    half of what the others left of it, and owners take turns. So one user's thousand jobs, or another kind of action,
    cannot delay the signal of another user's job.
    """
    counts = Counter(dict(recent))
    chosen: list[JobAction] = []
    deferred: list[JobAction] = []
    for act in _take_turns({act.name: act for act in actions if act.name not in done}.values()):
        if not has_room(act.kind.value, act.run.uid, counts, permits.max_per_hour):
            deferred.append(act)
        elif len(chosen) < permits.max_per_cycle:
            chosen.append(act)
            counts[act.kind.value, act.run.uid] += 1
    return ActionChoice(tuple(chosen), tuple(deferred))


def _take_turns(actions: Iterable[JobAction]) -> list[JobAction]:
    """Return the actions by kind, and within a kind each owner's first one before any owner's second."""
    turns: Counter[tuple[ActionKind, int]] = Counter()
    order = list(ActionKind)
    placed = []
    for act in actions:
        placed.append((order.index(act.kind), turns[act.kind, act.run.uid], act))
        turns[act.kind, act.run.uid] += 1
    return [act for _, _, act in sorted(placed, key=lambda each: each[:2])]


def _plan_signal(
    history: RunHistory, job: Job, attempt: Attempt | None, permits: ActionPermits, now: datetime
) -> Iterable[JobAction]:
    if attempt is None or not job.is_running or job.ends_at is None or job.time_limit is None:
        return
    signal = declared_signal(history, job)
    if signal is None or not permits.allows(ActionKind.SIGNAL, job.partition) or not facts.was_read_whole(history):
        return
    save_time = _save_time(history)
    lead = save_time + permits.signal_margin
    left = job.ends_at - now
    if not timedelta(0) < left <= lead:
        return
    expected = projection.at_limit(history, attempt, job.ends_at, now)
    lost = expected.lost if expected else job.ends_at - projection.saved_until(history, attempt)
    if lost < permits.min_loss:
        return
    yield JobAction(
        kind=ActionKind.SIGNAL,
        name=_name(ActionKind.SIGNAL, attempt),
        run=history.key,
        job=job,
        word=signal,
        save_time=save_time,
        reasons=(
            f"{_seconds(left)} s are left until the time limit, and {_seconds(lead)} s are reserved for saving",
            f"{_seconds(lost)} s of work would be lost",
        ),
    )


def _plan_hold(
    history: RunHistory, job: Job, rule: RestartLoop | None, permits: ActionPermits, now: datetime
) -> Iterable[JobAction]:
    is_looping = (RestartLoop.name, job.job_id) in history.context.flagged
    own = facts.attempts_since_hold(history, job)
    if rule is None or not is_looping or not own or not permits.allows(ActionKind.HOLD, job.partition):
        return
    requeued = [] if job.is_held else rule.list_requeued(history, job, now)
    if requeued:
        yield JobAction(
            kind=ActionKind.HOLD,
            name=_name(ActionKind.HOLD, own[-1]),
            run=history.key,
            job=job,
            word="" if own[-1].ended_at else BREAKS_OFF,
            reasons=(f"it was requeued {len(requeued)} times since it was submitted or held, and saved nothing new",),
        )


def list_holds(done: Iterable[tuple[JobAction, str]]) -> Iterator[tuple[JobKey, Hold]]:
    """Yield the jobs that were held, from actions with their outcomes."""
    for act, outcome in done:
        hold = read_hold(act.run.cluster, act.name, act.word)
        if hold is not None and outcome == DONE:
            yield hold


def read_hold(cluster: str, name: str, word: str) -> tuple[JobKey, Hold] | None:
    """Return the job, and its attempt, that the action of this name held; None for other actions."""
    found = _HOLD_NAME.fullmatch(name)
    if found is None:
        return None
    key = JobKey(cluster, int(found[1]), datetime.fromtimestamp(float(found[2]), UTC))
    count = int(found[3])
    return key, Hold(count + 1, frozenset({count} if word == BREAKS_OFF else ()), is_own=True)


def _plan_summary(history: RunHistory, job: Job, permits: ActionPermits, now: datetime) -> Iterable[JobAction]:
    """Plan a summary: immediately for a hold, at intervals for changed flags, hourly for newer checkpoints."""
    if not permits.allows(ActionKind.SUMMARY, job.partition) or not facts.was_read_whole(history):
        return
    if federation.is_federated(job.job_id):
        return  # Slurm writes it on the cluster of submission, over a value that is not visible here
    name = (job.cluster, job.job_id)
    own = [attempt for attempt in history.attempts if (attempt.job.cluster, attempt.job.job_id) == name]
    text, said = summarise(history, job), job.admin_comment
    is_foreign = bool(said) and not said.startswith(SUMMARY_PREFIX)
    is_needless = not said and not _flags_of(history, job)
    if not own or is_foreign or is_needless or _to_the_hour(text) == _to_the_hour(said) or job.state not in _SUMMARISED:
        return
    is_held = facts.is_held_by_ckptd(history, job)
    when = "held" if is_held else str(int(now.timestamp() // SUMMARY_INTERVAL.total_seconds()))
    yield JobAction(
        kind=ActionKind.SUMMARY,
        name=f"{_name(ActionKind.SUMMARY, own[-1])}/{when}",
        run=history.key,
        job=job,
        word=text,
        reasons=("ckptd held it" if is_held else "its flags or the hour of its newest checkpoint changed",),
    )


def summarise(history: RunHistory, job: Job) -> str:
    """Return one line about a job: its open flags and its newest complete checkpoint, without text of users."""
    flags = ", ".join(_flags_of(history, job)) or "no flags"
    if facts.is_held_by_ckptd(history, job):
        flags = f"held by ckptd because of {RestartLoop.name}, release with: scontrol release {job.slurm_name}"
    newest = max(facts.complete_now(history), key=_completed_at, default=None)
    progress = facts.progress(newest.checkpoint) if newest else None
    at = f"{progress[0]} {progress[1]:.12g}" if progress else "one"
    saved = f"newest checkpoint {at}, {_completed_at(newest):%Y-%m-%d %H:%M} UTC" if newest else "no checkpoint"
    return f"{SUMMARY_PREFIX}{flags}; {saved}"[:MAX_SUMMARY]


def _to_the_hour(summary: str) -> str:
    """Return the part of a summary whose change justifies a new one, because jobs may save every minute."""
    return _SAVED.sub(r"\1", summary)


def _plan_resubmit(history: RunHistory, finished: TimedOutRun, permits: ActionPermits) -> Iterable[JobAction]:
    answer = resubmit_policy.judge(history, finished, **_find_site_limits(finished, permits))
    if isinstance(answer, ResubmitDecision):
        yield JobAction(
            kind=ActionKind.RESUBMIT,
            name=_name(ActionKind.RESUBMIT, finished.attempt),
            run=history.key,
            job=finished.job,
            number=finished.resubmit_count + 1,
            mark=sbatch_command.name_end(finished.attempt),
            reasons=answer.reasons,
        )


def _find_site_limits(finished: TimedOutRun, permits: ActionPermits) -> _SiteLimits:
    partition = finished.attempt.partition or finished.job.partition
    return {"is_permitted": permits.allows(ActionKind.RESUBMIT, partition), "most": permits.max_resubmits}


def _flags_of(history: RunHistory, job: Job) -> list[str]:
    return sorted({rule for rule, job_id in history.context.flagged if job_id in {job.job_id, None}})


def _completed_at(record: RecordedCheckpoint) -> datetime:
    return record.completed_at or record.checkpoint.modified_at


def _name(kind: ActionKind, attempt: Attempt) -> str:
    """Return an action's name; it contains the time of the job's first poll, because ids are reused."""
    return f"{kind.value}/{attempt.job.job_id}@{attempt.job.first_seen_at.timestamp():.6f}/{attempt.restart_count}"


def _seconds(duration: timedelta) -> int:
    return int(duration.total_seconds())
