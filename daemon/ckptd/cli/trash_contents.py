"""Prints what is in the trash, and records what the database does not know of it."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ckptd.checkpoints.trash import TrashEntry
from ckptd.cli.output import (
    EXIT_TROUBLE,
    format_duration,
    format_second,
    format_size,
    print_json,
    print_table,
    safe,
)
from ckptd.cli.trash_access import TrashAccess, name_actor, open_bench, open_whole_bench, user_name
from ckptd.cli.trash_search import is_of_owner
from ckptd.core.model import Unknown
from ckptd.present.formatting import format_count
from ckptd.steps.prune.rebuild_record import record_entries

if TYPE_CHECKING:  # pydantic is loaded for the configuration only
    from ckptd.present.responses.field_types import ReasonedPath
    from ckptd.present.responses.retention_documents import (
        TrashEntryDocument,
        TrashListDocument,
        TrashScanDocument,
        TrashTotalDocument,
    )

PROBLEMS_SHOWN = 50


def print_entries(context: click.Context, directories: tuple[str, ...], user: str | None, *, is_json: bool) -> None:
    """Print the trash of these directories, or of all recorded runs that the user may see."""
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
        print_totals(entries)
        for problem in problems:
            click.echo(safe(f"{problem.what}: {problem.reason}"), err=True)
    if problems:
        raise SystemExit(EXIT_TROUBLE)


def scan_and_record(context: click.Context, directories: tuple[str, ...], *, is_json: bool) -> None:
    """Find trashes in and below these directories, record what the database lacks, and print that."""
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


def _sum_by_user(entries: Iterable[TrashEntry]) -> "list[TrashTotalDocument]":
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


def print_totals(entries: Sequence[TrashEntry]) -> None:
    """Print how much is in the trash, by user if there are several."""
    users = _sum_by_user(entries)
    if len(users) > 1:
        rows = [(each["user"], each["checkpoints"], format_size(each["size_bytes"])) for each in users]
        print_table(("user", "checkpoints", "size"), rows, "")
    size = format_size(sum(each.size_bytes for each in entries))
    click.echo(f"{format_count(len(entries), 'checkpoint')}, {size}")


def _error_rows(problems: Iterable[Unknown]) -> "list[ReasonedPath]":
    return [{"path": problem.what, "reason": problem.reason} for problem in problems]


def _document(entry: TrashEntry, ends_at: datetime | None) -> "TrashEntryDocument":
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
