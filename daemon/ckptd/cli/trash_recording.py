"""Finds trashes, and records what the database does not know of them."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ckptd.cli.output import EXIT_TROUBLE, print_json, safe
from ckptd.cli.trash_access import name_actor, open_found
from ckptd.cli.trash_contents import entry_document, error_rows, print_entry_table
from ckptd.cli.trash_search import is_of_owner
from ckptd.cli.trash_view import user_name
from ckptd.core.model import Unknown
from ckptd.present.formatting import format_count
from ckptd.steps.prune.rebuild_record import record_entries

if TYPE_CHECKING:  # pydantic is loaded for the configuration only
    from ckptd.present.responses.retention_documents import TrashScanDocument

PROBLEMS_SHOWN = 50


def scan_and_record(context: click.Context, directories: tuple[str, ...], *, is_json: bool) -> None:
    """Find trashes in and below these directories, record what the database lacks, and print that."""
    now = datetime.now(UTC)
    with open_found(context, directories) as (access, problems):
        entries, unread = access.view.read(is_measured=True)
        owned = [is_of_owner(entry, entry.uid) for entry in entries]
        own = [entry for entry, is_own in zip(entries, owned, strict=True) if is_own]
        users = {entry.uid: user_name(entry.uid) for entry in own}
        with access.acting() as acting:
            assert acting.store is not None
            rebuilt = record_entries(acting.store, access.cluster, own, users, name_actor(), now)
        reason = "the directory that it would be restored to belongs to another user"
        others = [entry for entry, is_own in zip(entries, owned, strict=True) if not is_own]
        problems += [*unread, *(Unknown(what=str(each.place / each.act_id), reason=reason) for each in others)]
        counts = {name: len(found) for name, found in rebuilt._asdict().items()}
        if is_json:
            document: TrashScanDocument = {
                "recorded": [entry_document(entry, access.view.find_end(entry)) for entry in rebuilt.recorded],
                "counts": counts,
                "errors": error_rows(problems),
            }
            print_json(document)
        else:
            print_entry_table(rebuilt.recorded, access.view, now, "There is no checkpoint in the trash to record.")
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
