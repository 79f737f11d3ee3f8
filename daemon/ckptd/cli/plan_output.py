"""Makes the plan of pruning from the database, and prints it."""

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ckptd.cli.output import format_size, print_json, print_table, safe
from ckptd.cli.retention_scope import RetentionScope, read_scope
from ckptd.core.retention import Decision, Plan, RunPlan
from ckptd.present.formatting import format_count
from ckptd.present.labels import name_run
from ckptd.steps.prune import circuit_breaker, planning
from ckptd.store.store_reader import StoreReader

if TYPE_CHECKING:  # pydantic is loaded for the configuration only
    from ckptd.present.responses.retention_documents import (
        DecisionDocument,
        PlanDocument,
        PlannedRunDocument,
        PlanTotalsDocument,
    )


def print_plan(
    context: click.Context, names: tuple[str, ...], asked: str | None, *, is_json: bool, is_verbose: bool
) -> None:
    """Print what pruning would keep and remove of the runs that these names mean; none: of all runs."""
    now = datetime.now(UTC)
    with read_scope(context, names, asked) as scope:
        facts = planning.read_facts(scope.store, scope.cluster, scope.site, scope.keys)
        made = planning.plan(facts, now)
        limited = limit(scope, made, now)
        recorded_count = scope.store.runs.count_located(scope.cluster) if scope.keys is None else 0
    if is_json:
        document: PlanDocument = {
            "plan": made.plan_id,
            "totals": _totals(made, limited),
            "runs": [_run_document(run, facts.choices[run.run].refused) for run in limited.runs],
        }
        print_json(document)
        return
    for run in limited.runs:
        _print_run(run, facts.choices[run.run].refused, is_verbose=is_verbose)
    click.echo(
        f"plan {made.plan_id}: {format_count(limited.remove_count, 'checkpoint')} "
        f"({format_size(limited.remove_bytes)}) to remove from {sum(bool(run.remove) for run in limited.runs)} of "
        f"{format_count(len(limited.runs), 'run')}{_describe_left_out(recorded_count - len(limited.runs))}"
    )
    if limited.remove_count:
        where = f", on a host of {asked}" if asked else ""
        command = shlex.join(["ckptd", "prune", "--apply", "--plan", made.plan_id, *names])
        click.echo(safe(f"To move them to the trash{where}: {command}"))


def _describe_left_out(count: int) -> str:
    """Say how many runs the plan of every run leaves out, because pruning never removes an only checkpoint."""
    if count <= 0:
        return ""
    verb = "has" if count == 1 else "have"
    return f"; {format_count(count, 'more run')} with fewer than two checkpoints {verb} nothing to prune"


def limit(scope: RetentionScope[StoreReader], made: Plan, now: datetime) -> Plan:
    """Return the plan limited by the site's caps and circuit breakers."""
    found = planning.check_circuit_breaker(scope.store, scope.cluster, scope.site, now)._replace(
        refused={}
    )  # a person may try again
    return circuit_breaker.limit(made, scope.site.caps, found, now, modes=planning.ACTIVE_MODES)


def _totals(made: Plan, limited: Plan) -> "PlanTotalsDocument":
    """Return the totals of the checkpoints removed now, and of those deferred by a cap or a circuit breaker."""
    return {
        "runs": sum(bool(run.remove) for run in limited.runs),
        "remove": limited.remove_count,
        "remove_bytes": limited.remove_bytes,
        "wait": made.remove_count - limited.remove_count,
        "wait_bytes": made.remove_bytes - limited.remove_bytes,
    }


def _run_document(run: RunPlan, refused: tuple[str, ...]) -> "PlannedRunDocument":
    return {
        "run": run.run.directory,
        "keep": [_decision_document(each) for each in run.keep],
        "remove": [_decision_document(each) for each in run.remove],
        "skipped": run.skipped,
        "refused_wishes": list(refused),
        "limited_settings": list(refused),
    }


def _decision_document(decision: Decision) -> "DecisionDocument":
    found = decision.record.checkpoint
    grouping = found.grouping
    return {
        "path": decision.path,
        "size_bytes": found.size_bytes,
        "reasons": list(decision.reasons),
        "role": found.role,
        "role_evidence": found.role_evidence,
        "members": {"count": len(found.files), "parts": [str(part.path) for part in found.parts]},
        "series": grouping.series or None,
        "grouping": {
            "progress": list(grouping.progress),
            "evidence": grouping.evidence,
            "is_directory": grouping.is_directory,
            "doubt": grouping.doubt,
        },
    }


def _print_run(run: RunPlan, refused: tuple[str, ...], *, is_verbose: bool) -> None:
    policy = f"policy {run.policy}, mode {run.mode.value}" if run.policy else "no policy"
    click.secho(safe(f"{name_run(run.run.directory)}  (user {run.user}, {policy})"), bold=True)
    for setting in refused:
        click.echo(safe(f"user setting limited by the site: {setting}"))
    shown = run.decisions
    if run.skipped:
        click.echo(safe(f"skipped: {run.skipped}"))
        shown = tuple(each for each in shown if run.skipped not in each.reasons[0])
        if not shown:
            return
    rows = [
        (
            "keep" if each.is_kept else "remove",
            each.path.removeprefix(run.run.directory + "/"),
            str(len(each.record.checkpoint.files)),
            format_size(each.record.checkpoint.size_bytes),
            "; ".join(each.reasons),
            *(_describe_grouping(each) if is_verbose else ()),
        )
        for each in shown
    ]
    columns = (
        "",
        "checkpoint",
        "files",
        "size",
        "reasons",
        *(("series", "evidence of progress") if is_verbose else ()),
    )
    print_table(columns, rows, "No checkpoint is recorded.")
    click.echo(f"{len(run.remove)} to remove, {format_size(run.remove_bytes)}")


def _describe_grouping(decision: Decision) -> tuple[str, str]:
    """Return the series of a checkpoint, and the evidence that a number in its name counts progress."""
    grouping = decision.record.checkpoint.grouping
    return grouping.series or "-", grouping.doubt or grouping.evidence or "-"
