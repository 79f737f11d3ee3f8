"""`ckptd trash`: what was moved aside, and bringing it back or letting it go. With a DIRECTORY it needs no database."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from ckptd.checkpoints.trash import Entry, Outcome, Result
from ckptd.cli.context import friendly
from ckptd.cli.output import EXIT_TROUBLE, format_duration, format_size, print_json, print_table, safe
from ckptd.cli.retention import RetentionError
from ckptd.cli.trash_bench import open_bench, user_name
from ckptd.core.model import Unknown


@click.group()
def trash() -> None:
    """List, bring back or delete what was moved aside."""


@trash.command(name="list")
@click.argument("directories", nargs=-1, metavar="[DIRECTORY]...")
@click.option("--user", metavar="USER", help="Only what is this user's.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def list_(context: click.Context, directories: tuple[str, ...], user: str | None, is_json: bool) -> None:
    """List what the trashes of these checkpoint directories hold: of all on record without one."""
    now = datetime.now(UTC)
    with open_bench(context, directories) as bench:
        entries, problems = bench.read(user)
    if is_json:
        errors = [{"path": problem.what, "reason": problem.reason} for problem in problems]
        found = [_document(entry, bench.hold) for entry in entries]
        print_json({"trash": found, "users": _sum_by_user(entries), "errors": errors})
    else:
        _print_entries(entries, bench.hold, now)
        _print_users(entries)
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
    with open_bench(context, directories) as bench:
        _report((bench.restore(entry) for entry in bench.choose(act_ids)), Result.RESTORED)


@trash.command()
@click.argument("act_ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "is_all", is_flag=True, help="All that they hold.")
@click.option("--user", metavar="USER", help="With --all: only what is this user's.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask; needed for --all where there is no terminal to ask.")
@click.option("--directory", "directories", multiple=True, metavar="DIRECTORY", help="The run's; needs no database.")
@click.pass_context
@friendly
def empty(
    context: click.Context,
    act_ids: tuple[str, ...],
    is_all: bool,
    user: str | None,
    is_sure: bool,
    directories: tuple[str, ...],
) -> None:
    """Delete checkpoints from the trash for good, however short they were held, the oldest first."""
    if bool(act_ids) == is_all or (user and not is_all):
        raise RetentionError("say which: either ids, or --all and perhaps --user")
    with open_bench(context, directories) as bench:
        entries, problems = bench.read(user) if is_all else (bench.choose(act_ids), [])
        for problem in problems:
            click.echo(safe(f"left alone: {problem.what}: {problem.reason}"), err=True)
        if is_all and entries and not is_sure:
            _ask(entries)
        _report((bench.empty(entry) for entry in entries), Result.DELETED)


def _ask(entries: Sequence[Entry]) -> None:
    told = f"{len(entries)} checkpoints of {format_size(sum(entry.size_bytes for entry in entries))}"
    if not sys.stdin.isatty():
        raise RetentionError(f"this would delete {told} for good: say --yes where there is no terminal to ask")
    _print_users(entries)
    click.confirm(f"Delete {told} for good?", abort=True)


def _print_entries(entries: Iterable[Entry], hold: timedelta | None, now: datetime) -> None:
    rows = [
        (
            each.act_id,
            user_name(each.uid),
            format_size(each.size_bytes),
            format_duration(now - each.moved_at),
            _tell_end(each, hold, now),
            each.state,
            each.path,
        )
        for each in entries
    ]
    columns = ("id", "user", "size", "held for", "until", "state", "checkpoint")
    print_table(columns, rows, "Nothing is in the trash.")


def _tell_end(entry: Entry, hold: timedelta | None, now: datetime) -> str:
    """Say when its hold ends. After that it goes with the next step, as long as its policy enforces."""
    if hold is None:
        return "-"
    ends_at = entry.moved_at + hold
    return f"{ends_at.astimezone():%Y-%m-%d %H:%M}" if ends_at > now else "over"


def _sum_by_user(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for entry in entries:
        user = {"user": user_name(entry.uid), "uid": entry.uid, "checkpoints": 0, "size_bytes": 0}
        total = found.setdefault(entry.uid, user)
        total["checkpoints"] += 1
        total["size_bytes"] += entry.size_bytes
    return sorted(found.values(), key=lambda total: (-total["size_bytes"], total["uid"]))


def _print_users(entries: Sequence[Entry]) -> None:
    users = _sum_by_user(entries)
    if len(users) > 1:
        rows = [(each["user"], each["checkpoints"], format_size(each["size_bytes"])) for each in users]
        print_table(("user", "checkpoints", "size"), rows, "")
    click.echo(f"{len(entries)} checkpoints, {format_size(sum(each.size_bytes for each in entries))}")


def _report(outcomes: Iterable[Outcome | Unknown], wanted: Result) -> None:
    """Tell each outcome as it comes, and their sum."""
    count = done_count = size_bytes = 0
    for outcome in outcomes:
        count += 1
        if isinstance(outcome, Unknown):
            click.echo(safe(f"unknown {outcome.what}: {outcome.reason}"), err=True)
        else:
            reason = f": {outcome.reason}" if outcome.reason else ""
            click.echo(safe(f"{outcome.result.value} {outcome.path}{reason}"))
            if outcome.result is wanted:
                done_count += 1
                size_bytes += outcome.size_bytes
    freed = ", freed" if wanted is Result.DELETED else ""
    click.echo(f"{done_count} of {count} {wanted.value}{freed}: {format_size(size_bytes)}")
    if done_count < count:
        raise SystemExit(EXIT_TROUBLE)


def _document(entry: Entry, hold: timedelta | None) -> dict[str, Any]:
    return {
        "id": entry.act_id,
        "path": entry.path,
        "place": str(entry.place),
        "state": entry.state.value,
        "size_bytes": entry.size_bytes,
        "uid": entry.uid,
        "user": user_name(entry.uid),
        "moved_at": entry.moved_at,
        "hold_ends_at": None if hold is None else entry.moved_at + hold,
        "reasons": list(entry.reasons),
    }
