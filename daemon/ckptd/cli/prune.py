"""`ckptd prune`: carries out exactly the plan that somebody has read, and tells what came of it."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import click

from ckptd.checkpoints.agent_client import AgentClient
from ckptd.checkpoints.look import scan_runs
from ckptd.checkpoints.trash import Outcome, Result
from ckptd.cli.context import friendly
from ckptd.cli.output import EXIT_TROUBLE, format_duration, format_size, print_json, print_table, safe
from ckptd.cli.retention import Desk, limit, open_desk
from ckptd.core.model import Checkpoint, RunHistory, RunKey, Scan, Unknown
from ckptd.core.retention import Decision, Plan
from ckptd.pruning import acts, looking, planning
from ckptd.pruning.removal import Removal
from ckptd.pruning.settle import Hands, settle
from ckptd.service.build import build_limits

WAITS = "waits"  # for a cap, as the plan showed it

Scans = Mapping[RunKey, Scan | Unknown]


class _Act(NamedTuple):
    """What came of one checkpoint that the plan lets go."""

    path: str
    result: str
    reason: str | None
    size_bytes: int


@click.command()
@click.argument("names", nargs=-1, metavar="[JOB|PATH]...")
@click.option("--apply", "is_applied", is_flag=True, required=True, help="Do it; without this there is `ckptd plan`.")
@click.option(
    "--plan", "plan_id", required=True, metavar="ID", help="As `ckptd plan` with the same JOB|PATH printed it."
)
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def prune(context: click.Context, names: tuple[str, ...], is_applied: bool, plan_id: str, is_json: bool) -> None:
    """Move aside exactly what a plan says, and nothing if anything has changed since it was printed."""
    assert is_applied
    now = datetime.now(UTC)
    with open_desk(context, names) as desk, _open_agent() as agent:
        made, scans = _plan_again(desk, agent, now)
        if made.plan_id != plan_id:
            click.echo(f"refused: something has changed, and the plan is {made.plan_id} now", err=True)
            raise SystemExit(EXIT_TROUBLE)
        hands = Hands(desk.store, agent, desk.site, desk.cluster)
        done = list(_carry_out(hands, limit(desk, made, now), made, scans, now))
    if is_json:
        print_json(_document(plan_id, done))
    else:
        _print(done, desk.site.hold)
    is_any_moved = any(each.result == Result.MOVED for each in done)
    if any(each.result not in {Result.MOVED, *([WAITS] if is_any_moved else [])} for each in done):
        raise SystemExit(EXIT_TROUBLE)


@contextmanager
def _open_agent() -> Iterator[AgentClient]:
    agent = AgentClient()
    try:
        yield agent
    finally:
        agent.close()


def _plan_again(desk: Desk, agent: AgentClient, now: datetime) -> tuple[Plan, Scans]:
    """Plan from the record, and again with a look at every directory from which something goes.

    Its newest ones are read anew there, though nothing about their files changed: all else goes because they are whole.
    """
    facts = planning.read_facts(desk.store, desk.cluster, desk.site, desk.keys)
    newest = {run.run: looking.list_newest(run) for run in planning.plan(facts, now).runs if run.remove}
    asked = [
        (key, [known for known in _list_present(run.history) if str(known.path) not in newest[key]], None)
        for run in facts.runs
        if (key := run.history.key) in newest
    ]
    scans = dict(
        zip([key for key, _, _ in asked], scan_runs(agent, asked, build_limits(desk.config), now), strict=True)
    )
    return planning.plan(planning.judge_again(facts, scans), now, scans), scans


def _list_present(history: RunHistory) -> list[Checkpoint]:
    return [each.checkpoint for each in history.checkpoints if each.gone_at is None]


def _carry_out(hands: Hands, limited: Plan, made: Plan, scans: Scans, now: datetime) -> Iterator[_Act]:
    """Carry out what is within the limits; give what came of everything that the plan lets go."""
    doubtful = settle(hands, [run.run for run in limited.runs if run.remove], now)
    for within, whole in zip(limited.runs, made.runs, strict=True):
        scan = scans.get(within.run)
        outcomes: dict[str, Outcome | Unknown] = {}
        why = "it comes after one of its run that was not moved"
        if within.run in doubtful:
            why = "it is not known what an earlier act on its run came to"
        elif not isinstance(scan, Scan):
            why = scan.reason if scan else "its directory was not looked at"
        elif within.remove:
            removal = Removal(hands, within, limited.plan_id, scan.markers, f"{acts.PERSON}{os.getuid()}")
            removal.carry_out(now)
            outcomes = dict(zip([each.path for each in within.remove], removal.outcomes, strict=False))
        waiting = {each.path: each.reasons[0] for each in within.keep}
        for each in whole.remove:
            if each.path in waiting:
                yield _Act(each.path, WAITS, waiting[each.path], 0)
            else:
                yield _tell(each, outcomes.get(each.path), why)


def _tell(asked: Decision, outcome: Outcome | Unknown | None, why: str) -> _Act:
    if outcome is None:
        return _Act(asked.path, "left", why, 0)
    if isinstance(outcome, Unknown):
        return _Act(asked.path, "unknown", outcome.reason, 0)
    return _Act(asked.path, outcome.result.value, outcome.reason, outcome.size_bytes)


def _document(plan_id: str, done: list[_Act]) -> dict[str, Any]:
    rows = [{"path": each.path, "result": each.result, "reason": each.reason} for each in done]
    return {"plan": plan_id, "acts": rows, "moved_bytes": _moved_bytes(done)}


def _print(done: list[_Act], hold: timedelta) -> None:
    cells = [(each.result, each.path, each.reason) for each in done]
    print_table(("result", "checkpoint", "reason"), cells, "The plan removes nothing.")
    moved = sum(each.result == Result.MOVED for each in done)
    click.echo(f"{moved} moved to the trash, {format_size(_moved_bytes(done))}")
    if moved:
        click.echo(f"They are freed when {format_duration(hold)} are over; `ckptd trash empty` frees them at once.")
    others = Counter((each.result, each.reason) for each in done if each.result != Result.MOVED)
    for (result, reason), count in others.most_common(10):
        click.echo(safe(f"{count} {result}: {reason}"))


def _moved_bytes(done: list[_Act]) -> int:
    return sum(each.size_bytes for each in done if each.result == Result.MOVED)
