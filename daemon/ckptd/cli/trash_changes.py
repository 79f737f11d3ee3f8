"""Restores checkpoints from the trash, and deletes them for good."""

import sys
from collections.abc import Iterable, Sequence

import click

from ckptd.checkpoints.trash import TrashEntry, TrashOutcome, TrashResult
from ckptd.cli.output import EXIT_TROUBLE, format_size, safe
from ckptd.cli.run_names import RetentionError
from ckptd.cli.trash_access import open_access
from ckptd.cli.trash_contents import print_totals
from ckptd.core.model import Unknown
from ckptd.present.formatting import format_count


def restore_entries(context: click.Context, act_ids: tuple[str, ...], directories: tuple[str, ...]) -> None:
    """Move the entries with these ids back to where they were, and print each outcome."""
    with open_access(context, directories) as access, access.acting() as acting:
        _report((acting.restore(entry) for entry in acting.view.choose(act_ids)), TrashResult.RESTORED)


def delete_entries(
    context: click.Context,
    act_ids: tuple[str, ...],
    directories: tuple[str, ...],
    user: str | None,
    *,
    is_all: bool,
    is_sure: bool,
) -> None:
    """Delete the entries with these ids, or all, and print each outcome.

    Raises:
        RetentionError: ids and `is_all` exclude one another, and deleting all needs a confirmation.

    """
    if bool(act_ids) == is_all or (user and not is_all):
        raise RetentionError("give either the ids to delete, or --all (with --user USER: only of one user)")
    with open_access(context, directories) as access:
        entries, problems = access.view.read(user) if is_all else (access.view.choose(act_ids), [])
        for problem in problems:
            click.echo(safe(f"skipped: {problem.what}: {problem.reason}"), err=True)
        if is_all and entries and not is_sure:
            _ask(entries)
        with access.acting() as acting:
            _report(acting.empty(entries), TrashResult.DELETED)


def _ask(entries: Sequence[TrashEntry]) -> None:
    size = format_size(sum(entry.size_bytes for entry in entries))
    amount = f"{format_count(len(entries), 'checkpoint')} ({size})"
    if not sys.stdin.isatty():
        raise RetentionError(f"this would permanently delete {amount}: add --yes to confirm without a terminal")
    print_totals(entries)
    click.confirm(f"Permanently delete {amount}?", abort=True)


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
