"""`ckptd plan`, `pin` and `unpin`: show what pruning would do, and protect checkpoints from it."""

import os
import shlex
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import NamedTuple

import click

from ckptd.cli.command import friendly
from ckptd.cli.context import find_runs, open_existing_store
from ckptd.cli.output import format_size, print_json, print_table, safe
from ckptd.cli.whole_config import load_config
from ckptd.config import Config
from ckptd.core.model import Checkpoint, RunKey
from ckptd.core.retention import Decision, Plan, RunPlan
from ckptd.errors import CkptdError
from ckptd.present.formatting import format_count
from ckptd.present.responses.retention_documents import (
    DecisionDocument,
    PlanDocument,
    PlannedRunDocument,
    PlanTotalsDocument,
)
from ckptd.service.build_retention import build_retention
from ckptd.steps.prune import SitePolicy, circuit_breaker, planning
from ckptd.store.store import Store


class RetentionError(CkptdError):
    """The command cannot be carried out."""


class RetentionScope(NamedTuple):
    """The database, the site's settings and the runs that these commands work on."""

    config: Config
    store: Store
    site: SitePolicy
    cluster: str
    keys: tuple[RunKey, ...] | None  # None: every run that the user may see


@contextmanager
def open_desk(context: click.Context, names: Collection[str] = ()) -> Iterator[RetentionScope]:
    """Open the database and find the runs that a command names; ordinary users see only their own."""
    config = load_config(context)
    with open_existing_store(config) as store:
        cluster = find_cluster(config, store)
        keys = tuple(key for name in names for key in _find_own_runs(store, name, cluster)) if names else None
        if keys is None and os.geteuid() != 0:
            keys = tuple(key for key in store.runs.list_keys() if key.uid == os.geteuid())
        yield RetentionScope(config, store, build_retention(config), cluster, keys)


def find_cluster(config: Config, store: Store) -> str:
    """Return the configured cluster, or the only one in the database."""
    recorded = [status.cluster for status in store.clusters.read_status()]
    if config.slurm.cluster:
        return config.slurm.cluster
    if len(recorded) != 1:
        raise RetentionError(
            f"the cluster is ambiguous (on record: {', '.join(recorded) or 'none'}): set [slurm] cluster"
        )
    return recorded[0]


def _find_own_runs(store: Store, name: str, cluster: str) -> tuple[RunKey, ...]:
    found = find_known_runs(store, name, cluster)
    own = tuple(key for key in found if os.geteuid() in {0, key.uid})
    if not own:
        raise RetentionError(f"{name} belongs to another user: only that user and root may plan and prune it")
    return own


def find_known_runs(store: Store, name: str, cluster: str) -> tuple[RunKey, ...]:
    """Return the runs of a job id or directory.

    Raises:
        RetentionError: the database has none.

    """
    found = find_runs(store, name, cluster)
    if not found:
        raise RetentionError(f"no job or run {name!r} is on record; `ckptd jobs` lists the jobs that have started")
    return found


@click.command()
@click.argument("names", nargs=-1, metavar="[JOB|PATH]...")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "-v",
    "--verbose",
    "is_verbose",
    is_flag=True,
    help="Also show which checkpoints form a series (same name except for a number), and why that number is progress.",
)
@click.pass_context
@friendly
def plan(context: click.Context, names: tuple[str, ...], is_json: bool, is_verbose: bool) -> None:
    """Show what pruning would keep and remove, and why.

    Prints the reason for each checkpoint and changes nothing. The default is every run; ordinary users see only their
    own. JOB is an id such as 4711 or, for an array task, 4711_3; PATH is a checkpoint directory.
    """
    now = datetime.now(UTC)
    with open_desk(context, names) as desk:
        facts = planning.read_facts(desk.store, desk.cluster, desk.site, desk.keys)
        made = planning.plan(facts, now)
        limited = limit(desk, made, now)
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
        f"{format_count(len(limited.runs), 'run')}"
    )
    if limited.remove_count:
        click.echo(
            f"To move them to the trash: {shlex.join(['ckptd', 'prune', '--apply', '--plan', made.plan_id, *names])}"
        )


def limit(desk: RetentionScope, made: Plan, now: datetime) -> Plan:
    """Return the plan limited by the site's caps and circuit breakers."""
    found = planning.check_brake(desk.store, desk.cluster, desk.site, now)._replace(
        refused={}
    )  # a person may try again
    return circuit_breaker.limit(made, desk.site.caps, found, now, modes=planning.ACTIVE_MODES)


def _totals(made: Plan, limited: Plan) -> PlanTotalsDocument:
    """Return the totals of the checkpoints removed now, and of those deferred by a cap or a circuit breaker."""
    return {
        "runs": sum(bool(run.remove) for run in limited.runs),
        "remove": limited.remove_count,
        "remove_bytes": limited.remove_bytes,
        "wait": made.remove_count - limited.remove_count,
        "wait_bytes": made.remove_bytes - limited.remove_bytes,
    }


def _run_document(run: RunPlan, refused: tuple[str, ...]) -> PlannedRunDocument:
    return {
        "run": run.run.directory,
        "keep": [_decision_document(each) for each in run.keep],
        "remove": [_decision_document(each) for each in run.remove],
        "skipped": run.skipped,
        "refused_wishes": list(refused),
        "limited_settings": list(refused),
    }


def _decision_document(decision: Decision) -> DecisionDocument:
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
    click.secho(safe(f"{run.run.directory}  (user {run.user}, {policy})"), bold=True)
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


@click.command()
@click.argument("path")
@click.pass_context
@friendly
def pin(context: click.Context, path: str) -> None:
    """Keep the checkpoint at PATH, whatever the policies say.

    PATH is the checkpoint or one of its files. `ckptd unpin` undoes this.
    """
    _set_pinned(context, path, is_pinned=True)


@click.command()
@click.argument("path")
@click.pass_context
@friendly
def unpin(context: click.Context, path: str) -> None:
    """Undo `ckptd pin` for the checkpoint at PATH.

    The retention policies then decide about it again.
    """
    _set_pinned(context, path, is_pinned=False)


def _set_pinned(context: click.Context, path: str, *, is_pinned: bool) -> None:
    found = PurePosixPath(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path.rstrip("/")))
    with open_desk(context) as desk:
        keys = [key for parent in found.parents for key in desk.store.runs.find_at(str(parent), desk.cluster)]
        own = [key for key in keys if os.geteuid() in {0, key.uid}]
        if keys and not own:
            raise RetentionError(
                f"{str(found)!r} is in another user's run: only that user and root may pin its checkpoints"
            )
        meant = [(key, each) for key in own for each in _find_checkpoints(desk.store, key, found)]
        for key, each in meant:
            desk.store.checkpoints.set_pinned(key, str(each.path), is_pinned=is_pinned)
    if not meant:
        raise RetentionError(f"no checkpoint {str(found)!r} is on record; `ckptd show JOB` lists those of a job")
    for named in dict.fromkeys(each.path for _, each in meant):
        click.echo(f"{'pinned' if is_pinned else 'unpinned'} {safe(named)}")
    count = max(len(each.files) for _, each in meant)
    if count > 1:
        click.echo(f"The checkpoint has {count} files, which are kept or removed together.")


def _find_checkpoints(store: Store, key: RunKey, path: PurePosixPath) -> list[Checkpoint]:
    """Return the checkpoints of a run at a path, or with a member or part there."""
    present = [record.checkpoint for record in store.checkpoints.read(key) if record.deleted_at is None]
    return [
        each
        for each in present
        if path == each.path
        or any(path == part.path for part in each.parts)
        or any(path == each.path.parent / file for file in each.files)
    ]
