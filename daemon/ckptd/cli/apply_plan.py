"""Applies the plan that `ckptd plan` printed, by the daemon's own function, and prints the outcomes."""

import logging
import os
import pwd
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import NamedTuple

import click

from ckptd.checkpoints.agent.client import AgentClient
from ckptd.checkpoints.trash import TrashOutcome, TrashResult
from ckptd.cli.output import EXIT_TROUBLE, format_duration, format_size, print_json, print_table, safe
from ckptd.cli.retention_scope import RetentionScope
from ckptd.cli.whole_config import load_config
from ckptd.cli.writable_scope import open_scope
from ckptd.config import Config
from ckptd.core.model import Unknown
from ckptd.core.retention import Decision
from ckptd.present.responses.retention_documents import PruneDocument, RemovalDocument
from ckptd.service.agent_start import start_agent
from ckptd.service.build import build_parts, build_source
from ckptd.service.command_lease import join_or_take_lease
from ckptd.service.step_table import make_runner
from ckptd.steps.poll import poll_unrecorded
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.prune import apply, audit_entries, pause_record, planning
from ckptd.steps.prune.apply import ApplyOptions, ApplyParts, ApplyResult
from ckptd.steps.prune.clock_guard import ClockGuard
from ckptd.steps.prune.foreign_removals import ForeignRemovals
from ckptd.steps.prune.observer import CommandObserver
from ckptd.steps.prune.recovered_runs import RecoveredRuns
from ckptd.steps.prune.recovery import PruneParts
from ckptd.steps.prune.scan_before_prune import ScanTurns
from ckptd.steps.state import begin
from ckptd.store.store import Store

WAITS = "waits"  # for a cap, as the plan showed it
EARLIER_ONE = "an earlier checkpoint of its run could not be moved"
FIRST_SIGNAL = b"Stopping: no further checkpoint will be moved. Press Ctrl-C again to exit immediately.\n"


class _RemovalOutcome(NamedTuple):
    """The outcome for one checkpoint that the plan removes."""

    path: str
    result: str
    reason: str | None
    size_bytes: int


def apply_plan(context: click.Context, names: tuple[str, ...], plan_id: str, *, is_json: bool) -> None:
    """Move what the plan with this id removes to the trash; refuse if it is no longer the plan."""
    logging.getLogger("ckptd").addHandler(logging.NullHandler())  # the table shows each outcome
    config = load_config(context)
    with (
        open_scope(context, names) as desk,
        _open_agent(context) as agent,
        _stop_on_signals() as should_stop,
        join_or_take_lease(desk.store, desk.cluster, "prune") as store,
    ):
        applied = _apply(config, desk._replace(store=store), agent, plan_id, should_stop)
    if applied.refused:
        click.echo(safe(f"refused: {applied.refused}"), err=True)
        raise SystemExit(EXIT_TROUBLE)
    done = list(_list_acts(applied))
    if is_json:
        print_json(_document(plan_id, applied, done))
    else:
        _print(applied, done, desk.site.hold)
    is_any_moved = any(each.result == TrashResult.MOVED for each in done)
    expected = {TrashResult.MOVED, *([WAITS] if is_any_moved else [])}
    if applied.is_stopped or any(each.result not in expected for each in done):
        raise SystemExit(EXIT_TROUBLE)


@contextmanager
def _open_agent(context: click.Context) -> Iterator[AgentClient]:
    agent = start_agent(context.find_root().params.get("config"), is_person=True)
    try:
        yield agent
    finally:
        agent.close()


@contextmanager
def _stop_on_signals() -> Iterator[Callable[[], bool]]:
    """Stop removals at the first SIGINT or SIGTERM, and exit at the second."""
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        os.write(2, FIRST_SIGNAL)
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, ask)
    try:
        yield stop.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _apply(
    config: Config, desk: RetentionScope[Store], agent: AgentClient, plan_id: str, should_stop: Callable[[], bool]
) -> ApplyResult:
    """Plan again from the database, and apply the plan if its id is `plan_id`.

    The database also provides what the daemon has in memory: the known jobs, and why removals are paused.
    """
    now, began = _now(), time.monotonic()
    hands = PruneParts(desk.store, agent, desk.site, desk.cluster, should_stop)
    facts = planning.read_facts(desk.store, desk.cluster, desk.site, desk.keys)
    made = planning.plan(facts, now)
    if made.plan_id != plan_id:
        return ApplyResult(refused=apply.describe_changed_plan(made), plan=made, limited=made)
    means = ApplyParts(
        hands=hands,
        observer=_observe(config, desk, agent, now),
        clock=ClockGuard(jump=pause_record.read_reason(desk.store, desk.cluster), deletes_from=timedelta.max),
        recovered=RecoveredRuns(),
        turns=ScanTurns(),
        foreign=ForeignRemovals(),
        elapsed=timedelta(seconds=began),
        read_passed=lambda: timedelta(seconds=time.monotonic() - began),
    )
    terms = ApplyOptions(
        modes=planning.ACTIVE_MODES, actor=f"{audit_entries.PERSON}{os.getuid()}", is_exact=True, retries_refused=True
    )
    return apply.apply(made, facts, means, terms, now)


def _observe(config: Config, desk: RetentionScope[Store], agent: AgentClient, now: datetime) -> CommandObserver:
    """Poll Slurm through the daemon's source; ordinary users may see only their own jobs."""
    uid = os.geteuid()
    source = build_source(config, None if uid == 0 else _find_name(uid))
    runner = make_runner(poll=lambda parts, state: poll_unrecorded(parts, state, _now(), uid or None))
    parts = build_parts(config, source, desk.store, agent, desk.cluster, runner)
    state = begin(parts, now)
    if uid != 0:
        state.change(PolledQueue, lambda queued: queued.only_of(uid))
    return CommandObserver(parts, state)


def _find_name(uid: int) -> str:
    """Return a user's name, or the uid if there is none; Slurm's programs accept both."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _list_acts(applied: ApplyResult) -> Iterator[_RemovalOutcome]:
    """Yield the outcome of every checkpoint that the plan removes, including those deferred by limits."""
    for within, whole in zip(applied.limited.runs, applied.plan.runs, strict=True):
        outcomes = dict(zip((each.path for each in within.remove), applied.list_outcomes(within), strict=True))
        why = applied.left.get(within.run) or (apply.STOP if applied.is_stopped else EARLIER_ONE)
        waiting = {each.path: each.reasons[0] for each in within.keep}
        for each in whole.remove:
            if each.path in waiting:
                yield _RemovalOutcome(each.path, WAITS, waiting[each.path], 0)
            else:
                yield _outcome_row(each, outcomes.get(each.path), why)


def _outcome_row(asked: Decision, outcome: TrashOutcome | Unknown | None, why: str) -> _RemovalOutcome:
    if outcome is None:
        return _RemovalOutcome(asked.path, "left", why, 0)
    if isinstance(outcome, Unknown):
        return _RemovalOutcome(asked.path, "unknown", outcome.reason, 0)
    return _RemovalOutcome(asked.path, outcome.result.value, outcome.reason, outcome.size_bytes)


def _document(plan_id: str, applied: ApplyResult, done: list[_RemovalOutcome]) -> PruneDocument:
    rows: list[RemovalDocument] = [{"path": each.path, "result": each.result, "reason": each.reason} for each in done]
    return {"plan": plan_id, "removals": rows, "moved_bytes": _moved_bytes(done), "is_stopped": applied.is_stopped}


def _print(applied: ApplyResult, done: list[_RemovalOutcome], hold: timedelta) -> None:
    cells = [(each.result, each.path, each.reason) for each in done]
    print_table(("result", "checkpoint", "reason"), cells, "The plan removes nothing.")
    if applied.is_stopped:
        click.echo("Stopped by a signal before the plan was completed.")
    moved = sum(each.result == TrashResult.MOVED for each in done)
    click.echo(f"{moved} moved to the trash, {format_size(_moved_bytes(done))}")
    if moved:
        click.echo(f"ckptd deletes them after {format_duration(hold)}. To free the space now, run `ckptd trash empty`.")
    others = Counter((each.result, each.reason) for each in done if each.result != TrashResult.MOVED)
    for (result, reason), count in others.most_common(10):
        click.echo(safe(f"{count} {result}: {reason}"))


def _moved_bytes(done: list[_RemovalOutcome]) -> int:
    return sum(each.size_bytes for each in done if each.result == TrashResult.MOVED)


def _now() -> datetime:
    return datetime.now(UTC)
