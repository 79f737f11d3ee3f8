"""`ckptd trash`: list, restore and delete checkpoints in the trash. With a DIRECTORY, it needs no database."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import click

from ckptd.checkpoints.trash import TrashEntry, TrashOutcome, TrashResult
from ckptd.cli.command import friendly
from ckptd.cli.output import (
    EXIT_TROUBLE,
    format_duration,
    format_second,
    format_size,
    print_json,
    print_table,
    safe,
)
from ckptd.cli.retention_commands import RetentionError
from ckptd.cli.trash_access import TrashAccess, name_actor, open_bench, open_whole_bench, user_name
from ckptd.cli.trash_search import is_of_owner
from ckptd.core.model import Unknown
from ckptd.present.formatting import format_count
from ckptd.present.responses.field_types import ReasonedPath
from ckptd.present.responses.retention_documents import (
    TrashEntryDocument,
    TrashListDocument,
    TrashScanDocument,
    TrashTotalDocument,
)
from ckptd.steps.prune.rebuild_record import record_entries

PROBLEMS_SHOWN = 50


@click.group()
def trash() -> None:
    """List, restore or delete checkpoints in the trash.

    Pruning moves checkpoints there.
    """


@trash.command(name="list")
@click.argument("directories", nargs=-1, metavar="[DIRECTORY]...")
@click.option("--user", metavar="USER", help="Show only checkpoints of USER.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def list_(context: click.Context, directories: tuple[str, ...], user: str | None, is_json: bool) -> None:
    """List the checkpoints in the trash.

    DIRECTORY is a checkpoint directory. The default is all checkpoint directories that ckptd knows.
    """
    now = datetime.now(UTC)
    with open_bench(context, directories) as bench:
        entries, problems = bench.read(user)
    if is_json:
        document: TrashListDocument = {
            "trash": [_document(entry, bench.find_end(entry)) for entry in entries],
            "users": _sum_by_user(entries),
            "errors": _error_rows(problems),
        }
        print_json(document)
    else:
        _print_entries(entries, bench, now)
        _print_users(entries)
        for problem in problems:
            click.echo(safe(f"{problem.what}: {problem.reason}"), err=True)
    if problems:
        raise SystemExit(EXIT_TROUBLE)


@trash.command()
@click.argument("directories", nargs=-1, metavar="[DIRECTORY]...")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def scan(context: click.Context, directories: tuple[str, ...], is_json: bool) -> None:
    """Find trashes that the database does not know, and record their contents.

    Use this after the database was lost or replaced. ckptd searches these directories and everything below them, by
    default scan.allowed_roots, and reads the manifest of every checkpoint in a trash.
    """
    now = datetime.now(UTC)
    with open_whole_bench(context, directories) as (bench, problems):
        entries, unread = bench.read(is_measured=True)
        owned = [is_of_owner(entry, entry.uid) for entry in entries]
        own = [entry for entry, is_own in zip(entries, owned, strict=True) if is_own]
        users = {entry.uid: user_name(entry.uid) for entry in own}
        with bench.acting() as acting:
            assert acting.store is not None
            rebuilt = record_entries(acting.store, bench.cluster, own, users, name_actor(), now)
        reason = "the directory that it would be restored to belongs to another user"
        others = [entry for entry, is_own in zip(entries, owned, strict=True) if not is_own]
        problems += [*unread, *(Unknown(what=str(each.place / each.act_id), reason=reason) for each in others)]
        counts = {name: len(found) for name, found in rebuilt._asdict().items()}
        if is_json:
            document: TrashScanDocument = {
                "recorded": [_document(entry, bench.find_end(entry)) for entry in rebuilt.recorded],
                "counts": counts,
                "errors": _error_rows(problems),
            }
            print_json(document)
        else:
            _print_entries(rebuilt.recorded, bench, now, "There is no checkpoint in the trash to record.")
            _print_counts(counts)
            for problem in problems[:PROBLEMS_SHOWN]:
                click.echo(safe(f"skipped: {problem.what}: {problem.reason}"), err=True)
            if len(problems) > PROBLEMS_SHOWN:
                click.echo(f"skipped: {len(problems) - PROBLEMS_SHOWN} more", err=True)
    if problems or rebuilt.left:
        raise SystemExit(EXIT_TROUBLE)


_COUNTS = {
    "recorded": "recorded in the database",
    "known": "already recorded",
    "foreign": "of another cluster, not recorded",
    "unfinished": "in an interrupted operation: the daemon completes or undoes it",
    "left": "above the limit of one user, not recorded: scan again after the others have been deleted",
}


def _print_counts(counts: dict[str, int]) -> None:
    for name, count in counts.items():
        if count or name == "recorded":
            click.echo(f"{format_count(count, 'checkpoint')} {_COUNTS[name]}")


@trash.command()
@click.argument("act_ids", nargs=-1, required=True, metavar="ID...")
@click.option(
    "--directory",
    "directories",
    multiple=True,
    metavar="DIRECTORY",
    help="Checkpoint directory whose trash to use; the command then works without a database.",
)
@click.pass_context
@friendly
def restore(context: click.Context, act_ids: tuple[str, ...], directories: tuple[str, ...]) -> None:
    """Move checkpoints from the trash back to where they were. ckptd will not prune them again.

    ID is the id that `ckptd trash list` prints.
    """
    with open_bench(context, directories) as opened, opened.acting() as bench:
        _report((bench.restore(entry) for entry in bench.choose(act_ids)), TrashResult.RESTORED)


@trash.command()
@click.argument("act_ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "is_all", is_flag=True, help="Delete everything in the trash.")
@click.option("--user", metavar="USER", help="With --all: only checkpoints of USER.")
@click.option(
    "--yes", "is_sure", is_flag=True, help="Do not ask for confirmation; required with --all if there is no terminal."
)
@click.option(
    "--directory",
    "directories",
    multiple=True,
    metavar="DIRECTORY",
    help="Checkpoint directory whose trash to use; the command then works without a database.",
)
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
    """Permanently delete checkpoints from the trash.

    ID is the id that `ckptd trash list` prints. This also deletes checkpoints whose hold (the time that ckptd keeps
    them in the trash) has not ended. The oldest are deleted first.
    """
    if bool(act_ids) == is_all or (user and not is_all):
        raise RetentionError("give either the ids to delete, or --all (with --user USER: only of one user)")
    with open_bench(context, directories) as bench:
        entries, problems = bench.read(user) if is_all else (bench.choose(act_ids), [])
        for problem in problems:
            click.echo(safe(f"skipped: {problem.what}: {problem.reason}"), err=True)
        if is_all and entries and not is_sure:
            _ask(entries)
        with bench.acting() as acting:
            _report(acting.empty(entries), TrashResult.DELETED)


def _ask(entries: Sequence[TrashEntry]) -> None:
    size = format_size(sum(entry.size_bytes for entry in entries))
    told = f"{format_count(len(entries), 'checkpoint')} ({size})"
    if not sys.stdin.isatty():
        raise RetentionError(f"this would permanently delete {told}: add --yes to confirm without a terminal")
    _print_users(entries)
    click.confirm(f"Permanently delete {told}?", abort=True)


def _print_entries(
    entries: Iterable[TrashEntry], bench: TrashAccess, now: datetime, nothing: str | None = None
) -> None:
    rows = [
        (
            each.act_id,
            user_name(each.uid),
            format_size(each.size_bytes),
            format_duration(now - each.moved_at),
            _format_hold_end(bench.find_end(each), now),
            each.state,
            each.path,
        )
        for each in entries
    ]
    columns = ("id", "user", "size", "in trash for", "hold ends (UTC)", "state", "checkpoint")
    print_table(columns, rows, nothing or _describe_empty_list(bench))


def _describe_empty_list(bench: TrashAccess) -> str:
    """Return the text for an empty list, with how to find trashes that are not in the database."""
    if bench.store is None:
        return "The trash of these directories is empty."
    count = len(set(bench.places.values()))
    return (
        f"The trash of the {format_count(count, 'recorded run')} is empty. "
        "If the database was lost or replaced, run `ckptd trash scan DIRECTORY...` to find other trashes."
    )


def _format_hold_end(ends_at: datetime | None, now: datetime) -> str:
    """Format the end of a hold. After it, the next pruning step deletes the entry if its policy enforces."""
    if ends_at is None:
        return "-"
    return format_second(ends_at) if ends_at > now else "ended"


def _sum_by_user(entries: Iterable[TrashEntry]) -> list[TrashTotalDocument]:
    found: dict[int, TrashTotalDocument] = {}
    for entry in entries:
        nothing: TrashTotalDocument = {
            "user": user_name(entry.uid),
            "uid": entry.uid,
            "checkpoints": 0,
            "size_bytes": 0,
        }
        total = found.setdefault(entry.uid, nothing)
        total["checkpoints"] += 1
        total["size_bytes"] += entry.size_bytes
    return sorted(found.values(), key=lambda total: (-total["size_bytes"], total["uid"]))


def _print_users(entries: Sequence[TrashEntry]) -> None:
    users = _sum_by_user(entries)
    if len(users) > 1:
        rows = [(each["user"], each["checkpoints"], format_size(each["size_bytes"])) for each in users]
        print_table(("user", "checkpoints", "size"), rows, "")
    size = format_size(sum(each.size_bytes for each in entries))
    click.echo(f"{format_count(len(entries), 'checkpoint')}, {size}")


def _report(outcomes: Iterable[TrashOutcome | Unknown], wanted: TrashResult) -> None:
    """Print each outcome as it arrives, and the total."""
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
    freed = ", freed" if wanted is TrashResult.DELETED else ""
    click.echo(f"{done_count} of {count} {wanted.value}{freed}: {format_size(size_bytes)}")
    if done_count < count:
        raise SystemExit(EXIT_TROUBLE)


def _error_rows(problems: Iterable[Unknown]) -> list[ReasonedPath]:
    return [{"path": problem.what, "reason": problem.reason} for problem in problems]


def _document(entry: TrashEntry, ends_at: datetime | None) -> TrashEntryDocument:
    return {
        "id": entry.act_id,
        "path": entry.path,
        "place": str(entry.place),
        "state": entry.state.value,
        "size_bytes": entry.size_bytes,
        "uid": entry.uid,
        "user": user_name(entry.uid),
        "moved_at": entry.moved_at,
        "hold_ends_at": ends_at,
        "reasons": list(entry.reasons),
        "policy": entry.origin.policy or None,
        "moved_by": entry.origin.actor or None,
        "cluster": entry.origin.cluster or None,
        "format": entry.origin.format or None,
        "role": entry.origin.role or None,
    }
