"""`ckptd trash`: what was moved aside, and bringing it back or letting it go. With a DIRECTORY it needs no database."""

import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import click

from ckptd.checkpoints import disposal
from ckptd.checkpoints.agent_client import AgentClient
from ckptd.checkpoints.disposal import Place
from ckptd.checkpoints.trash import Entry, Outcome, Result
from ckptd.cli.context import friendly
from ckptd.cli.output import EXIT_TROUBLE, format_duration, format_size, print_json, print_table, safe
from ckptd.cli.retention import RetentionError, open_desk
from ckptd.core.model import RunKey, Unknown
from ckptd.core.record import AuditEntry
from ckptd.pruning import acts
from ckptd.store.store import Store

DEADLINE = timedelta(minutes=5)


class _Bench(NamedTuple):
    """The trashes that a command is about, and the record where there is one."""

    agent: AgentClient
    places: dict[Place, RunKey]
    store: Store | None


@click.group()
def trash() -> None:
    """List, bring back or delete what was moved aside."""


@trash.command(name="list")
@click.argument("directories", nargs=-1, metavar="[DIRECTORY]...")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def list_(context: click.Context, directories: tuple[str, ...], is_json: bool) -> None:
    """List what the trashes of these checkpoint directories hold: of all on record without one."""
    now = datetime.now(UTC)
    with _open_bench(context, directories) as bench:
        entries, problems = _list(bench)
    if is_json:
        errors = [{"path": problem.what, "reason": problem.reason} for problem in problems]
        print_json({"trash": [_document(entry) for entry in entries], "errors": errors})
    else:
        rows = [
            (each.act_id, format_size(each.size_bytes), format_duration(now - each.moved_at), each.state, each.path)
            for each in entries
        ]
        print_table(("id", "size", "held for", "state", "checkpoint"), rows, "Nothing is in the trash.")
        click.echo(f"{len(entries)} checkpoints, {format_size(sum(each.size_bytes for each in entries))}")
        for problem in problems:
            click.echo(safe(f"{problem.what}: {problem.reason}"), err=True)
    if problems:
        raise SystemExit(EXIT_TROUBLE)


@trash.command()
@click.argument("act_ids", nargs=-1, required=True, metavar="ID...")
@click.option("--directory", "directories", multiple=True, metavar="DIRECTORY", help="The run's; needs no database.")
@click.pass_context
@friendly
def restore(context: click.Context, act_ids: tuple[str, ...], directories: tuple[str, ...]) -> None:
    """Bring checkpoints back to where they were. ckptd will not prune them again."""
    with _open_bench(context, directories) as bench:
        outcomes = [_restore(bench, entry) for entry in _choose(bench, act_ids)]
    _report(outcomes, Result.RESTORED)


@trash.command()
@click.argument("act_ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "is_all", is_flag=True, help="All that they hold.")
@click.option("--directory", "directories", multiple=True, metavar="DIRECTORY", help="The run's; needs no database.")
@click.pass_context
@friendly
def empty(context: click.Context, act_ids: tuple[str, ...], is_all: bool, directories: tuple[str, ...]) -> None:
    """Delete checkpoints from the trash for good, however short they were held."""
    if bool(act_ids) == is_all:
        raise RetentionError("say which: either ids or --all")
    with _open_bench(context, directories) as bench:
        entries = _list(bench)[0] if is_all else _choose(bench, act_ids)
        outcomes = [_empty(bench, entry) for entry in entries]
    _report(outcomes, Result.DELETED)


@contextmanager
def _open_bench(context: click.Context, directories: Collection[str]) -> Iterator[_Bench]:
    with ExitStack() as held:
        store = None
        if directories:
            keys = [_key_of(directory) for directory in directories]
        else:
            desk = held.enter_context(open_desk(context))
            store = desk.store
            keys = [key for key in desk.keys or store.list_run_keys() if key.cluster == desk.cluster]
        agent = AgentClient()
        held.callback(agent.close)
        places = {place: key for key in keys for place in disposal.places_of([key])}
        yield _Bench(agent, places, store)


def _key_of(directory: str) -> RunKey:
    path = os.path.realpath(directory)
    try:
        uid = os.stat(path).st_uid
    except OSError as error:
        raise RetentionError(f"{directory}: {error.strerror}") from error
    if os.geteuid() not in {0, uid}:
        raise RetentionError(f"{directory} belongs to someone else")
    return RunKey("", uid, path)


def _list(bench: _Bench) -> tuple[list[Entry], list[Unknown]]:
    entries: dict[tuple[Place, str], Entry] = {}
    problems: list[Unknown] = []
    places = list(bench.places)
    for place, found in zip(places, disposal.list_trash(bench.agent, places, DEADLINE), strict=True):
        if isinstance(found, Unknown):
            problems.append(Unknown(what=str(place.path), reason=found.reason))
            continue
        problems += found.problems
        # whose it is says the directory, not the manifest that its owner could have written
        entries |= {(place, entry.act_id): replace(entry, uid=place.uid) for entry in found.entries}
    return sorted(entries.values(), key=lambda entry: (entry.moved_at, entry.path)), problems


def _choose(bench: _Bench, act_ids: Collection[str]) -> list[Entry]:
    known = {entry.act_id: entry for entry in _list(bench)[0]}
    for act_id in act_ids:
        if act_id not in known:
            raise RetentionError(f"no {act_id!r} is in the trash")
    return [known[act_id] for act_id in dict.fromkeys(act_ids)]


def _place(entry: Entry) -> Place:
    return Place(entry.uid, entry.place)


def _restore(bench: _Bench, entry: Entry) -> Outcome | Unknown:
    intent = _intend(bench, acts.RESTORE, entry)
    outcome = disposal.restore(bench.agent, _place(entry), entry.act_id, DEADLINE)
    _finish(bench, intent, outcome)
    return outcome


def _empty(bench: _Bench, entry: Entry) -> Outcome | Unknown:
    intent = _intend(bench, acts.EMPTY, entry)
    held_before = datetime.now(UTC) + timedelta(days=36_500)  # whatever clock it was moved by
    found = disposal.empty(bench.agent, _place(entry), [entry.act_id], held_before, DEADLINE)
    outcome = found if isinstance(found, Unknown) else found[0]
    _finish(bench, intent, outcome)
    return outcome


def _intend(bench: _Bench, action: str, entry: Entry) -> AuditEntry | None:
    if bench.store is None:
        return None
    run = next(
        (key for key in bench.places.values() if key.uid == entry.uid and entry.path.startswith(f"{key.directory}/")),
        bench.places[_place(entry)],
    )
    actor, now = f"{acts.PERSON}{os.getuid()}", datetime.now(UTC)
    intent = acts.intend(action, run, entry.path, act_id=entry.act_id, actor=actor, now=now)
    return replace(intent, audit_id=bench.store.append_audit(intent))


def _finish(bench: _Bench, intent: AuditEntry | None, outcome: Outcome | Unknown) -> None:
    if bench.store and intent and intent.audit_id is not None and not isinstance(outcome, Unknown):
        bench.store.finish_audit(intent.audit_id, acts.tell(outcome), datetime.now(UTC))


def _report(outcomes: list[Outcome | Unknown], wanted: Result) -> None:
    is_well = True
    for outcome in outcomes:
        if isinstance(outcome, Unknown):
            click.echo(safe(f"unknown: {outcome.reason}"), err=True)
            is_well = False
            continue
        reason = f": {outcome.reason}" if outcome.reason else ""
        click.echo(safe(f"{outcome.result.value} {outcome.path}{reason}"))
        is_well &= outcome.result is wanted
    if not is_well:
        raise SystemExit(EXIT_TROUBLE)


def _document(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.act_id,
        "path": entry.path,
        "place": str(entry.place),
        "state": entry.state.value,
        "size_bytes": entry.size_bytes,
        "uid": entry.uid,
        "moved_at": entry.moved_at,
        "reasons": list(entry.reasons),
    }
