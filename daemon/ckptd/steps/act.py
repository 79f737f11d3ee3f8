"""Carries out the actions that `core.job_actions` plans: each is recorded before and after it, and never repeated.

A recorded action without an outcome was interrupted: `interrupted_actions` finds out what became of it. An action is
retried only if it cannot have happened, because Slurm did not answer or its queue shows that it did not.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from ckptd.checkpoints.agent.batches import BatchRunner
from ckptd.checkpoints.agent.client import SILENCE, Answer, Batch
from ckptd.checkpoints.agent.lease_memory import NOT_BEGUN
from ckptd.core import health
from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.job_actions import action_policy, sbatch_options
from ckptd.core.job_actions.action_policy import DONE, ActionKind, ActionPermits, DeferReason, JobAction
from ckptd.core.job_actions.hourly_limit import ACTOR
from ckptd.core.job_actions.resubmit_policy import SUBMITTED, WITHOUT_LINE, TimedOutRun
from ckptd.core.model import Job, RunHistory, RunKey, Unknown
from ckptd.core.model.records import AuditEntry
from ckptd.slurm import commands as slurm_actions
from ckptd.slurm.programs import Programs
from ckptd.steps import finished_runs
from ckptd.steps.interrupted_actions import AbsenceProof, InterruptedActions, Marked, finish_interrupted
from ckptd.steps.job_action_log import ActResults, JobActionLog
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.results import StepResult
from ckptd.steps.run_facts import JobHolds
from ckptd.steps.snapshots import RunHistories
from ckptd.steps.state import State
from ckptd.store.store import Store

# slurmctld's words
ENDED_SIGNS = ("Job has already finished", "Job/step already completing or completed", "Invalid job id specified")
NOT_REACHED_SIGN = "(connect failure)"  # nothing was sent
UNANSWERED_SIGNS = ("Unable to contact slurm controller", "timed out")
QUESTION = "question"  # what an answer is about that was asked before an act
DEADLINE_SECONDS = 90.0
REACH_SECONDS = 5.0  # in which a command can be begun in a directory
SLOW_SECONDS = 10.0  # that one act took, for example in a directory of a file system that hangs


@dataclass(frozen=True, kw_only=True, slots=True)
class ActParts:
    """What carrying out actions needs."""

    cluster: str
    store: Store
    agent: BatchRunner
    programs: Programs
    permits: ActionPermits
    loop_rule: Callable[[RunHistory], RestartLoop | None]
    require_lease: Callable[[], None] = lambda: None  # raises an error if this process may not act now


class _ActionOutcome(NamedTuple):
    outcome: str
    argv: list[str] | None = None


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Carry out the actions that the site enabled; none while the last poll may be outdated."""
    action_log = state.own(JobActionLog, JobActionLog)
    acted = _act_if_known(parts, state, now)
    if held := tuple(action_policy.list_holds(acted.done)):
        state.change(JobHolds, lambda holds: holds.with_holds(held))
    lines = action_log.record(acted)
    state.publish(action_log.read_counts())
    return StepResult(bool(acted.done), lines)


def _act_if_known(parts: Parts, state: State, now: datetime) -> ActResults:
    acting = build_acting(parts)
    if not parts.permits.allows_any:
        return ActResults()
    with state.record_lock:  # a gap that a poll found is to be known with its queue
        queued, histories = state.latest(PolledQueue), state.latest(RunHistories).by_run
        if queued.polled_at is None:
            return ActResults()
        finished = finished_runs.list_finished(parts, state, histories, now)
    if queued.slurm_trouble is not None:
        return wait_for_slurm(acting, histories, finished, now)
    proof = None
    if parts.backfill_window is not None:  # its setting is at most the time that Slurm keeps ended jobs
        seen_at = state.own(InterruptedActions, InterruptedActions).seen_at
        proof = AbsenceProof(polled_at=queued.polled_at, kept_for=parts.backfill_window.after, seen_at=seen_at)
    return act(acting, histories, finished, queued.marked, now, proof)


def build_acting(parts: Parts) -> ActParts:
    """Return what carrying out actions needs; if the site names no partitions, no action is carried out."""
    return ActParts(
        cluster=parts.cluster,
        store=parts.store,
        agent=parts.agent,
        programs=parts.programs,
        permits=parts.permits,
        loop_rule=partial(find_loop_rule, parts),
        require_lease=parts.require_lease,
    )


def find_loop_rule(parts: Parts, history: RunHistory) -> RestartLoop | None:
    """Return the rule `restart-loop` with a run's thresholds; None if the site disabled it."""
    rules = health.choose_rules(history, parts.rules, parts.overrides)
    return next((rule for rule in rules if isinstance(rule, RestartLoop)), None)


def act(
    parts: ActParts,
    histories: Mapping[RunKey, RunHistory],
    finished: Mapping[RunKey, TimedOutRun],
    marked: Marked,
    now: datetime,
    proof: AbsenceProof | None = None,
) -> ActResults:
    """Carry out the due actions; return them and the deferred ones."""
    finished_now = tuple(finish_interrupted(parts.store, parts.cluster, histories, marked, proof, now))
    due = action_policy.plan(histories.values(), finished, parts.permits, now, loop_rule=parts.loop_rule)
    if not due:
        return ActResults(finished_now)
    done = parts.store.audit.find_recorded(parts.cluster, [each.name for each in due])
    recent = parts.store.audit.count_by_owner(parts.cluster, ACTOR, now - timedelta(hours=1))
    choice = action_policy.choose(due, done, recent, parts.permits)
    done_now = tuple(_carry_out_all(parts, choice.actions, marked, now))
    return ActResults(finished_now + done_now, choice.deferred)


def wait_for_slurm(
    parts: ActParts, histories: Mapping[RunKey, RunHistory], finished: Mapping[RunKey, TimedOutRun], now: datetime
) -> ActResults:
    """Carry out nothing; return what would be due if Slurm answered."""
    due = action_policy.plan(histories.values(), finished, parts.permits, now, loop_rule=parts.loop_rule)
    done = parts.store.audit.find_recorded(parts.cluster, [each.name for each in due]) if due else ()
    return ActResults(deferred=tuple(each for each in due if each.name not in done), waits_for=DeferReason.SLURM)


def _carry_out_all(
    parts: ActParts, chosen: tuple[JobAction, ...], marked: Marked, now: datetime
) -> Iterator[tuple[JobAction, str]]:
    """Carry out the actions one after another; if one takes too long, defer the rest of its owner's actions."""
    slow: set[int] = set()
    for each in chosen:
        if each.run.uid in slow:
            continue
        if each.kind is ActionKind.RESUBMIT and not _is_reachable(parts, each.job):
            slow.add(each.run.uid)
            continue
        began = time.monotonic()
        yield each, _carry_out(parts, each, marked, now)
        if time.monotonic() - began > SLOW_SECONDS:
            slow.add(each.run.uid)


def _is_reachable(parts: ActParts, job: Job) -> bool:
    """Whether the file system of a job's directory answers; a hanging one must not delay other users' signals."""
    item = {"work_dir": str(job.work_dir or "/")}
    batch = Batch(uid=job.uid, operation="reach", items=(item,), deadline_seconds=REACH_SECONDS)
    ((answer,),) = parts.agent.run([batch])
    return answer != SILENCE


def _carry_out(parts: ActParts, act: JobAction, marked: Marked, now: datetime) -> str:
    parts.require_lease()  # before the record, too: an action that is recorded and then not done is not tried again
    details = {"user": act.job.user, "word": act.word, **({"mark": act.mark} if act.mark else {})}
    number = parts.store.audit.record(
        AuditEntry(
            cluster=parts.cluster,
            actor=ACTOR,
            action=act.kind.value,
            target=f"job {act.job.slurm_name}",
            run=act.run,
            plan_id=act.name,
            once_key=act.name,
            reasons=act.reasons,
            details=details,
            begun_at=now,
        )
    )
    parts.require_lease()
    answer = _do(parts, act, marked)
    done = _refused(act, answer) if isinstance(answer, Unknown) else answer
    if isinstance(answer, Unknown) and _is_undone(answer):
        parts.store.audit.undo(number, done.outcome, now)
    else:
        parts.store.audit.finish(number, done.outcome, now, {**details, "command": done.argv} if done.argv else None)
    return done.outcome


def _is_undone(answer: Unknown) -> bool:
    """Whether an action cannot have happened, because Slurm did not answer or nothing was begun: it is then retried."""
    signs = (NOT_REACHED_SIGN, NOT_BEGUN, *(UNANSWERED_SIGNS if answer.what == QUESTION else ()))
    return any(sign in answer.reason for sign in signs)


def _refused(act: JobAction, answer: Unknown) -> _ActionOutcome:
    """Return the outcome of an action that Slurm refused; an ended job is a failure only for a resubmission."""
    if act.kind is not ActionKind.RESUBMIT and any(sign in answer.reason for sign in ENDED_SIGNS):
        return _ActionOutcome("not needed: the job has ended")
    return _ActionOutcome(f"failed: {answer.reason.removeprefix('failed: ')}")


def _do(parts: ActParts, act: JobAction, marked: Marked) -> _ActionOutcome | Unknown:
    if act.kind is ActionKind.SUMMARY:
        return slurm_actions.write_summary(parts.programs, act.job, act.word) or _ActionOutcome(DONE)
    if act.kind is ActionKind.SIGNAL:
        return _signal(parts, act)
    if act.kind is ActionKind.RESUBMIT:
        return _resubmit(parts, act, marked)
    return _hold(parts, act)


def _hold(parts: ActParts, act: JobAction) -> _ActionOutcome | Unknown:
    return _decode(_ask(parts, act.job, "hold_job"))


def _signal(parts: ActParts, act: JobAction) -> _ActionOutcome | Unknown:
    """Send a signal, unless the job's own `--signal` makes Slurm send the same early enough."""
    submission = _ask(parts, act.job, "read_submission")
    if not isinstance(submission, Unknown):
        own = sbatch_options.find_signal(sbatch_options.read_options(submission["line"], submission["script"], act.job))
        if own is not None and own.word == act.word and timedelta(seconds=own.lead_seconds) >= act.save_time:
            return _ActionOutcome(f"not needed: its own --signal={own.word}@{own.lead_seconds} is early enough")
    return _decode(_ask(parts, act.job, "signal_job", signal=act.word))


def _resubmit(parts: ActParts, act: JobAction, marked: Marked) -> _ActionOutcome | Unknown:
    job_id = marked.get((act.job.uid, act.mark))
    if job_id is not None:  # the record of it was lost
        return _ActionOutcome(f"{SUBMITTED} {job_id}")
    answer = _ask(parts, act.job, "resubmit_job", number=act.number, mark=act.mark)
    done = _decode(answer)
    if isinstance(done, Unknown) or isinstance(answer, Unknown):
        return done
    outcome = f"{SUBMITTED} {answer['output'].strip().partition(';')[0][:40]}"
    return _ActionOutcome(outcome if answer["has_submit_line"] else f"{outcome}; {WITHOUT_LINE}", answer["argv"])


def _ask(parts: ActParts, job: Job, operation: str, **fields: Any) -> Answer:
    """Let the agent act on a job as the job's user; it reads everything but the job's numbers from Slurm."""
    item = {
        "job_id": job.job_id,
        "array_job_id": job.array_job_id,
        "array_task_id": job.array_task_id,
        "restart_count": job.restart_count,
        "is_running": job.is_running,
        **fields,
    }
    batch = Batch(uid=job.uid, operation=operation, items=(item,), deadline_seconds=DEADLINE_SECONDS)
    ((answer,),) = parts.agent.run([batch])
    return answer


def _decode(answer: Answer) -> _ActionOutcome | Unknown:
    """Return the outcome of an action; if Slurm did not answer a question before it, nothing was done."""
    if isinstance(answer, Unknown):
        return answer
    if "failed" in answer:
        return Unknown(what=QUESTION if answer["is_question"] else "command", reason=str(answer["failed"]))
    return _ActionOutcome(f"not needed: {answer['not_needed']}") if "not_needed" in answer else _ActionOutcome(DONE)
