"""Compares the content of copies with that of their originals, records the results, and prints them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from ckptd.checkpoints.executor import Executor, Ticket, VerificationRequest
from ckptd.cli import reading_command
from ckptd.cli.interruption import Interruption
from ckptd.cli.output import EXIT_TROUBLE, format_size, print_json, print_table
from ckptd.cli.reading_progress import is_terminal, show_progress
from ckptd.core.model import Checkpoint, ContentComparison, RunKey, Unknown
from ckptd.core.runs.copies_to_compare import PlacedCopy
from ckptd.core.verification.file_digests import CHANGED
from ckptd.steps import record_comparison
from ckptd.steps.record_comparison import ComparedCopy, WantedComparison
from ckptd.store.store import Store

if TYPE_CHECKING:
    from ckptd.present.responses.verify_documents import VerifyDocument

HEADINGS = ("result", "copy", "size", "first file that differs, or reason")
Result = Literal["same", "differs", "unknown"]


class CopyOutcome(NamedTuple):
    """What the command found of one copy."""

    wanted: WantedComparison
    copy: Checkpoint
    result: Result
    differing_file: str | None
    reason: str | None
    size_bytes: int  # that were read for it: with the first copy, also the original

    @property
    def cells(self) -> tuple[str, str, str, str | None]:
        detail = self.differing_file or self.reason
        return self.result, str(self.copy.path), format_size(self.copy.size_bytes), detail


class ComparisonWork(NamedTuple):
    """Reads every byte of copies and their originals to compare them."""

    store: Store
    is_comparison: bool = True

    def make_request(self, run: RunKey, wanted: Sequence[WantedComparison], now: datetime) -> VerificationRequest:
        return record_comparison.make_request(run, wanted, now)

    def list_paths(self, wanted: WantedComparison) -> set[PurePosixPath]:
        return {each.path for each in wanted.checkpoints}

    def explain(self, wanted: Iterable[WantedComparison], reason: str) -> list[CopyOutcome]:
        return [outcome for each in wanted for outcome in _list_outcomes(each, {}, reason)]

    def read_now(self, executor: Executor, wanted: WantedComparison, now: datetime) -> list[CopyOutcome]:
        found = record_comparison.compare_now(self.store, executor, wanted, now)
        if isinstance(found, Unknown):
            return self.explain([wanted], found.reason)
        return _list_outcomes(wanted, _by_path(found), CHANGED)

    def record(
        self, executor: Executor, ticket: Ticket, wanted: Sequence[WantedComparison], now: datetime
    ) -> list[CopyOutcome] | Unknown:
        found = record_comparison.record_comparison(self.store, executor, wanted[0].run, ticket, now)
        if isinstance(found, Unknown):
            return found
        return [outcome for each in wanted for outcome in _list_outcomes(each, _by_path(found), CHANGED)]


def compare_copies(
    context: click.Context, names: tuple[str, ...], *, is_again: bool, is_here: bool, is_json: bool
) -> None:
    """Compare the newest complete checkpoint of the named runs, or of all, with its copies; print and record it."""
    interruption = Interruption()
    with reading_command.open_place(context, names, is_here=is_here) as place:
        known = list(record_comparison.list_wanted(place.store, place.cluster, place.runs))
        left = [each.leave_out_same(is_owner_believed=place.by_jobs is not None) for each in known]
        wanted = known if is_again else [each for each in left if each.copied.copies]
        total = sum(each.size_bytes for one in wanted for each in one.checkpoints)
        with show_progress(HEADINGS, total, is_quiet=is_json) as show, interruption.listen_to_signals():
            work = ComparisonWork(place.store)
            outcomes = reading_command.read_all(place, work, wanted, interruption, show)
    left_count = _count_copies(wanted) - len(outcomes)
    before_count = _count_copies(known) - _count_copies(wanted)
    if is_json:
        print_json(_document(outcomes, before_count, left_count, is_stopped=interruption.is_stopped))
    else:
        _print_end(outcomes, before_count, left_count, is_stopped=interruption.is_stopped)
    if interruption.is_stopped or any(each.result != "same" for each in outcomes):
        raise SystemExit(EXIT_TROUBLE)


def _count_copies(wanted: Iterable[WantedComparison]) -> int:
    return sum(len(each.copied.copies) for each in wanted)


def _by_path(found: Iterable[ComparedCopy]) -> dict[PurePosixPath, ComparedCopy]:
    return {each.copy.record.checkpoint.path: each for each in found}


def _list_outcomes(
    wanted: WantedComparison, found: Mapping[PurePosixPath, ComparedCopy], reason: str
) -> list[CopyOutcome]:
    """Return the result for each copy; the reason is that of those without one."""
    extra_bytes = wanted.copied.original.checkpoint.size_bytes
    outcomes: list[CopyOutcome] = []
    for copy in wanted.copied.copies:
        compared = found.get(copy.record.checkpoint.path)
        outcomes.append(_judge(wanted, copy, None if compared is None else compared.result, reason, extra_bytes))
        extra_bytes = 0
    return outcomes


def _judge(
    wanted: WantedComparison,
    copy: PlacedCopy,
    result: ContentComparison | Unknown | None,
    reason: str,
    extra_bytes: int,
) -> CopyOutcome:
    found = copy.record.checkpoint
    size_bytes = found.size_bytes + extra_bytes
    if result is None or isinstance(result, Unknown):
        why = reason if result is None else result.reason
        return CopyOutcome(wanted, found, "unknown", None, why, size_bytes)
    word: Result = "same" if result.differing_file is None else "differs"
    return CopyOutcome(wanted, found, word, result.differing_file, None, size_bytes)


def _print_end(outcomes: Sequence[CopyOutcome], before_count: int, left_count: int, *, is_stopped: bool) -> None:
    if is_terminal() and outcomes:
        print_table(HEADINGS, [each.cells for each in outcomes], "")
    if not (outcomes or before_count or left_count):
        click.echo("No copy of a complete checkpoint is on record that can be compared.")
        return
    counts = Counter(each.result for each in outcomes)
    click.echo(f"{counts['same']} with the same content, {counts['differs']} differ, {counts['unknown']} unknown")
    if before_count:
        click.echo(f"{before_count} had the same content before; to read them again, use --again")
    if is_stopped:
        click.echo(f"Stopped by a signal: {left_count} not compared. The same command continues with them.")


def _document(
    outcomes: Sequence[CopyOutcome], before_count: int, left_count: int, *, is_stopped: bool
) -> "VerifyDocument":
    return {
        "checkpoints": [],
        "copies": [
            {
                "path": str(each.copy.path),
                "original": str(each.wanted.copied.original.checkpoint.path),
                "run": each.wanted.run.directory,
                "size_bytes": each.copy.size_bytes,
                "result": each.result,
                "differing_file": each.differing_file,
                "reason": each.reason,
            }
            for each in outcomes
        ],
        "verified_before": before_count,
        "not_reached": left_count,
        "is_stopped": is_stopped,
    }
