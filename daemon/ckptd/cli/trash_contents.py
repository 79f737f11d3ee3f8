"""Prints what is in the trash."""

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
from ckptd.cli.trash_view import TrashView, open_view, user_name
from ckptd.core.model import Unknown
from ckptd.present.formatting import format_count

if TYPE_CHECKING:  # this command starts without pydantic
    from ckptd.present.responses.field_types import ReasonedPath
    from ckptd.present.responses.retention_documents import (
        TrashEntryDocument,
        TrashListDocument,
        TrashTotalDocument,
    )


def print_entries(context: click.Context, directories: tuple[str, ...], user: str | None, *, is_json: bool) -> None:
    """Print the trash of these directories, or of all recorded runs that the user may see."""
    now = datetime.now(UTC)
    with open_view(context, directories) as view:
        entries, problems = view.read(user)
    if is_json:
        document: TrashListDocument = {
            "trash": [entry_document(entry, view.find_end(entry)) for entry in entries],
            "users": _sum_by_user(entries),
            "errors": error_rows(problems),
        }
        print_json(document)
    else:
        print_entry_table(entries, view, now)
        print_totals(entries)
        for problem in problems:
            click.echo(safe(f"{problem.what}: {problem.reason}"), err=True)
    if problems:
        raise SystemExit(EXIT_TROUBLE)


def print_entry_table(
    entries: Iterable[TrashEntry], view: TrashView, now: datetime, nothing: str | None = None
) -> None:
    """Print one line for each entry; `nothing` if there is none."""
    rows = [
        (
            each.act_id,
            user_name(each.uid),
            format_size(each.size_bytes),
            format_duration(now - each.moved_at),
            _format_hold_end(view.find_end(each), now),
            each.state,
            each.path,
        )
        for each in entries
    ]
    columns = ("id", "user", "size", "in trash for", "hold ends (UTC)", "state", "checkpoint")
    print_table(columns, rows, nothing or _describe_empty_list(view))


def _describe_empty_list(view: TrashView) -> str:
    """Return the text for an empty list, with how to find trashes that are not in the database."""
    if not view.is_recorded:
        return "The trash of these directories is empty."
    count = len(set(view.places.values()))
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


def error_rows(problems: Iterable[Unknown]) -> "list[ReasonedPath]":
    """Return what could not be read, for JSON."""
    return [{"path": problem.what, "reason": problem.reason} for problem in problems]


def entry_document(entry: TrashEntry, ends_at: datetime | None) -> "TrashEntryDocument":
    """Return an entry for JSON."""
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
