"""Does what `core.job_actions` plans: each act on record before it is done and after, and none a second time.

An act that is on record without an outcome was cut off, and is not done again. Whether it was done, only a job that
ckptd submitted tells: it carries the act's mark. Only what cannot have been done, because Slurm was not to be had, is
tried again.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from ckptd.checkpoints.agent.client import SILENCE, Answer, Batch
from ckptd.checkpoints.agent.scan_client import Agent
from ckptd.core import health
from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.job_actions import action_policy, sbatch_command, sbatch_options
from ckptd.core.job_actions.action_policy import DONE, Act, ActKind, Permits, PutOff
from ckptd.core.job_actions.hourly_limit import ACTOR
from ckptd.core.job_actions.resubmit_policy import SUBMITTED, Finished
from ckptd.core.job_actions.sbatch_command import Mark, Told
from ckptd.core.model import ENDED_STATES, Job, RunHistory, RunKey, Unknown
from ckptd.core.model.records import AuditEntry
from ckptd.core.queue import federation
from ckptd.slurm import commands as slurm_actions
from ckptd.slurm.programs import Programs
from ckptd.slurm.queue_text import Separators
from ckptd.steps import finished_runs
from ckptd.steps.job_action_log import Acted, ActsTold
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
CUT_OFF_AGE = timedelta(minutes=5)  # after which a job that was submitted would long be seen

Marked = Mapping[tuple[int, str], int]  # by owner and mark: the jobs in the queue that ckptd submitted


@dataclass(frozen=True, kw_only=True, slots=True)
class ActingParts:
    """What acting works with."""

    cluster: str
    store: Store
    agent: Agent
    programs: Programs
    permits: Permits
    loop_rule: Callable[[RunHistory], RestartLoop | None]


class _Done(NamedTuple):
    outcome: str
    argv: list[str] | None = None


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Do what the site has opted in to; nothing while what is known of the queue may be old."""
    told = state.own(ActsTold, ActsTold)
    acted = _act_if_known(parts, state, now)
    if held := tuple(action_policy.list_holds(acted.done)):
        state.change(JobHolds, lambda holds: holds.with_holds(held))
    lines = told.note(acted)
    state.publish(told.read_counts())
    return StepResult(bool(acted.done), lines)


def _act_if_known(parts: Parts, state: State, now: datetime) -> Acted:
    acting = build_acting(parts)
    if not parts.permits.allows_any:
        return Acted()
    with state.record_lock:  # a gap that a poll found is to be known with its queue
        queued, histories = state.latest(PolledQueue), state.latest(RunHistories).by_run
        if queued.polled_at is None:
            return Acted()
        finished = finished_runs.list_finished(parts, state, histories, now)
    if queued.slurm_trouble is not None:
        return wait_for_slurm(acting, histories, finished, now)
    return act(acting, histories, finished, queued.marked, now)


def build_acting(parts: Parts) -> ActingParts:
    """Return what acting on jobs works with; without the site's word for any partition it does nothing."""
    return ActingParts(
        cluster=parts.cluster,
        store=parts.store,
        agent=parts.agent,
        programs=parts.programs,
        permits=parts.permits,
        loop_rule=partial(find_loop_rule, parts),
    )


def find_loop_rule(parts: Parts, history: RunHistory) -> RestartLoop | None:
    """Return the rule about loops as it holds for a run; None where the site has turned it off."""
    rules = health.choose_rules(history, parts.rules, parts.overrides)
    return next((rule for rule in rules if isinstance(rule, RestartLoop)), None)


def act(
    parts: ActingParts,
    histories: Mapping[RunKey, RunHistory],
    finished: Mapping[RunKey, Finished],
    marked: Marked,
    now: datetime,
) -> Acted:
    """Do what is due, and say what had to wait."""
    _settle_cut_off(parts, marked, now)
    due = action_policy.plan(histories.values(), finished, parts.permits, now, loop_rule=parts.loop_rule)
    if not due:
        return Acted()
    done = parts.store.audit.find_recorded(parts.cluster, [each.name for each in due])
    recent = parts.store.audit.count_by_owner(parts.cluster, ACTOR, now - timedelta(hours=1))
    choice = action_policy.choose(due, done, recent, parts.permits)
    return Acted(tuple(_carry_out_all(parts, choice.acts, marked, now)), choice.put_off)


def wait_for_slurm(
    parts: ActingParts, histories: Mapping[RunKey, RunHistory], finished: Mapping[RunKey, Finished], now: datetime
) -> Acted:
    """Do nothing, and say what would be due if Slurm answered."""
    due = action_policy.plan(histories.values(), finished, parts.permits, now, loop_rule=parts.loop_rule)
    done = parts.store.audit.find_recorded(parts.cluster, [each.name for each in due]) if due else ()
    return Acted(put_off=tuple(each for each in due if each.name not in done), waits_for=PutOff.SLURM)


def _carry_out_all(
    parts: ActingParts, chosen: tuple[Act, ...], marked: Marked, now: datetime
) -> Iterator[tuple[Act, str]]:
    """Do the acts one after another; whoever keeps one waiting has the rest of theirs wait for the next time."""
    slow: set[int] = set()
    for each in chosen:
        if each.run.uid in slow:
            continue
        if each.kind is ActKind.RESUBMIT and not _is_reachable(parts, each.job):
            slow.add(each.run.uid)
            continue
        began = time.monotonic()
        yield each, _carry_out(parts, each, marked, now)
        if time.monotonic() - began > SLOW_SECONDS:
            slow.add(each.run.uid)


def _is_reachable(parts: ActingParts, job: Job) -> bool:
    """Whether the file system of a job's directory answers: while one hangs, other users' signals must not wait."""
    item = {"argv": ["scontrol", "--version"], "directory": str(job.work_dir or "/")}
    batch = Batch(uid=job.uid, operation="command", items=(item,), deadline_seconds=REACH_SECONDS)
    ((answer,),) = parts.agent.run([batch])
    return answer != SILENCE


def _settle_cut_off(parts: ActingParts, marked: Marked, now: datetime) -> None:
    """Give the acts that a sudden end cut off the outcome that the queue tells."""
    for entry in parts.store.audit.list_newest(parts.cluster, unfinished_only=True):
        if entry.actor != ACTOR or entry.audit_id is None:
            continue
        job_id = marked.get((entry.run.uid if entry.run else -1, str(entry.details.get("mark", ""))))
        if job_id is not None:
            parts.store.audit.finish(entry.audit_id, f"{SUBMITTED} {job_id}", now)
        elif now - entry.begun_at > CUT_OFF_AGE:
            parts.store.audit.finish(entry.audit_id, "cut off: it is not known to have been done", now)


def _carry_out(parts: ActingParts, act: Act, marked: Marked, now: datetime) -> str:
    details = {"user": act.job.user, "word": act.word, **({"mark": act.mark} if act.mark else {})}
    number = parts.store.audit.record(
        AuditEntry(
            cluster=parts.cluster,
            actor=ACTOR,
            action=act.kind.value,
            target=f"job {act.job.slurm_name}",
            run=act.run,
            plan_id=act.name,
            reasons=act.reasons,
            details=details,
            begun_at=now,
        )
    )
    answer = _do(parts, act, marked)
    done = _refused(act, answer) if isinstance(answer, Unknown) else answer
    if isinstance(answer, Unknown) and _is_undone(answer):
        parts.store.audit.undo(number, done.outcome, now)
    else:
        parts.store.audit.finish(number, done.outcome, now, {**details, "command": done.argv} if done.argv else None)
    return done.outcome


def _is_undone(answer: Unknown) -> bool:
    """Whether nothing can have been done, because Slurm was not to be had: then it is tried again."""
    signs = (NOT_REACHED_SIGN, *(UNANSWERED_SIGNS if answer.what == QUESTION else ()))
    return any(sign in answer.reason for sign in signs)


def _refused(act: Act, answer: Unknown) -> _Done:
    """Return how an act went that Slurm refused; that a job has ended is no failure but where it is to go on."""
    if act.kind is not ActKind.RESUBMIT and any(sign in answer.reason for sign in ENDED_SIGNS):
        return _Done("not needed: the job has ended")
    return _Done(f"failed: {answer.reason.removeprefix('failed: ')}")


def _do(parts: ActingParts, act: Act, marked: Marked) -> _Done | Unknown:
    if act.kind is ActKind.SUMMARY:
        return slurm_actions.write_summary(parts.programs, act.job, act.word) or _Done(DONE)
    if act.kind is ActKind.SIGNAL:
        return _signal(parts, act)
    if act.kind is ActKind.RESUBMIT:
        return _resubmit(parts, act, marked)
    return _hold(parts, act)


def _look_again(parts: ActingParts, job: Job) -> Job | _Done | Unknown:
    """Return the job with its state and attempt of now: what was decided on is up to a look at the queue old.

    Slurm would requeue a job that has ended, one that its user has cancelled, too, and the attempt that began
    meanwhile may not be ready for a signal.
    """
    if federation.is_federated(job.job_id):  # squeue may not find it by its number here
        return job
    separators = Separators.draw()
    (answer,) = _run_as(parts, job, {"argv": slurm_actions.format_now(job, separators)})
    if isinstance(answer, Unknown):
        return replace(answer, what=QUESTION)
    told = slurm_actions.parse_now(answer["output"], separators)
    if isinstance(told, Unknown):
        return told
    state, restart_count = told
    if state in ENDED_STATES:
        return _Done("not needed: the job has ended")
    now = replace(job, state=state, restart_count=restart_count)
    if now.is_running and restart_count != job.restart_count:
        return _Done("not needed: another attempt of the job runs")
    return now


def _hold(parts: ActingParts, act: Act) -> _Done | Unknown:
    now = _look_again(parts, act.job)
    return _run(parts, now, slurm_actions.format_hold(now)) if isinstance(now, Job) else now


def _signal(parts: ActingParts, act: Act) -> _Done | Unknown:
    """Send a signal, unless Slurm itself was told by the job to send the same early enough."""
    told = _ask(parts, act.job, with_attributes=False)
    if not isinstance(told, Unknown):
        own = sbatch_options.find_signal(sbatch_options.read_options(told.line, told.script, act.job))
        if own is not None and own.word == act.word and timedelta(seconds=own.lead_seconds) >= act.save_time:
            return _Done(f"not needed: its own --signal={own.word}@{own.lead_seconds} is early enough")
    now = _look_again(parts, act.job)
    if isinstance(now, Job) and not now.is_running:
        return _Done("not needed: the job no longer runs")
    return _run(parts, now, slurm_actions.format_signal(now, act.word)) if isinstance(now, Job) else now


def _resubmit(parts: ActingParts, act: Act, marked: Marked) -> _Done | Unknown:
    mark = Mark(act.number, act.mark)
    job_id = marked.get((act.job.uid, mark.end))
    if job_id is not None:  # the record of it was lost
        return _Done(f"{SUBMITTED} {job_id}")
    told = _ask(parts, act.job, with_attributes=True)
    if isinstance(told, Unknown):
        return replace(told, what=QUESTION)
    argv = sbatch_command.plan_command(act.job, told, mark)
    if isinstance(argv, Unknown):
        return argv
    output = "" if isinstance(told.shown, Unknown) else told.shown["StdOut"]
    item = {"argv": argv, "input": told.script, "directory": str(act.job.work_dir or "/"), "like": output}
    (answer,) = _run_as(parts, act.job, item)
    if isinstance(answer, Unknown):
        return answer
    return _Done(f"{SUBMITTED} {answer['output'].strip().partition(';')[0][:40]}{told.remark}", argv)


def _ask(parts: ActingParts, job: Job, *, with_attributes: bool) -> Told | Unknown:
    """Ask Slurm as the job's user for its script, how it was submitted, and what it was given."""
    separators, names = Separators.draw(), sbatch_command.ATTRIBUTES
    commands = [slurm_actions.format_script(job), slurm_actions.format_line(job, separators)]
    if with_attributes:
        commands += [slurm_actions.format_attributes(job, names, separators), slurm_actions.format_shown(job)]
    script, line, *more = _run_as(parts, job, *({"argv": argv} for argv in commands))
    if isinstance(script, Unknown):
        return script
    if not script["output"].startswith("#!"):
        return Unknown(what="batch script", reason="Slurm printed no batch script")
    attributes: dict[str, str] | Unknown = {}
    shown: dict[str, str] | Unknown = {}
    if with_attributes:
        queued, seen = more
        if isinstance(queued, Unknown):
            return queued
        attributes = slurm_actions.parse_attributes(queued["output"], names, separators)
        shown = seen if isinstance(seen, Unknown) else slurm_actions.parse_shown(seen["output"])
    if isinstance(attributes, Unknown):
        return attributes
    submitted = None if isinstance(line, Unknown) else slurm_actions.parse_line(line["output"], separators)
    return Told(script["output"], attributes, submitted, shown)


def _run(parts: ActingParts, job: Job, argv: list[str]) -> _Done | Unknown:
    (answer,) = _run_as(parts, job, {"argv": argv})
    return answer if isinstance(answer, Unknown) else _Done(DONE)


def _run_as(parts: ActingParts, job: Job, *items: dict[str, Any]) -> list[Answer]:
    batch = Batch(uid=job.uid, operation="command", items=items, deadline_seconds=DEADLINE_SECONDS)
    return parts.agent.run([batch])[0]
