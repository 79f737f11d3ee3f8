"""Verifies checkpoints in full, records the results, and prints them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import click

from ckptd.checkpoints.executor import Executor, Ticket, VerificationRequest, Witness
from ckptd.checkpoints.verify_jobs.job_executor import JobExecutor
from ckptd.cli import reading_command
from ckptd.cli.interruption import Interruption
from ckptd.cli.output import EXIT_TROUBLE, print_json, print_table
from ckptd.cli.reading_progress import is_terminal, show_progress
from ckptd.cli.verified_checkpoints import COMPLETE, DAMAGED, UNKNOWN, VerifiedCheckpoint, list_verified
from ckptd.core.model import RunKey, Unknown
from ckptd.steps.record_verification import WantedVerification, list_wanted, record_result, verify_now
from ckptd.store.store import Store

if TYPE_CHECKING:
    from ckptd.present.responses.verify_documents import VerifyDocument

HEADINGS = ("result", "checkpoint", "size", "reason")


class _Verification(NamedTuple):
    """What the command has done."""

    outcomes: list[VerifiedCheckpoint]
    verified_before_count: int
    not_reached_count: int
    is_stopped: bool


class VerificationWork(NamedTuple):
    """Reads every byte of checkpoints to verify them."""

    store: Store
    is_comparison: bool = False

    def make_request(self, run: RunKey, wanted: Sequence[WantedVerification], now: datetime) -> VerificationRequest:
        return VerificationRequest(run, tuple(each.record.checkpoint for each in wanted), now)

    def list_paths(self, wanted: WantedVerification) -> set[PurePosixPath]:
        found = wanted.record.checkpoint
        return {piece.path for piece in found.parts or (found,)}

    def explain(self, wanted: Iterable[WantedVerification], reason: str) -> list[VerifiedCheckpoint]:
        return [VerifiedCheckpoint(each, UNKNOWN, reason) for each in wanted]

    def read_now(self, executor: Executor, wanted: WantedVerification, now: datetime) -> list[VerifiedCheckpoint]:
        return list_verified([wanted], verify_now(self.store, executor, wanted.run, [wanted.record], now))

    def record(
        self, executor: Executor, ticket: Ticket, wanted: Sequence[WantedVerification], now: datetime
    ) -> list[VerifiedCheckpoint] | Unknown:
        changes = record_result(self.store, executor, wanted[0].run, ticket, now)
        if isinstance(changes, Unknown):
            return changes
        return list_verified(wanted, changes, is_by_owner=executor.witness is Witness.OWNER)


def verify_runs(
    context: click.Context, names: tuple[str, ...], *, is_again: bool, is_here: bool, is_json: bool
) -> None:
    """Verify the checkpoints of the named runs, or of all; print each result, and record it."""
    interruption = Interruption()
    with reading_command.open_place(context, names, is_here=is_here) as place:
        finished = list(list_wanted(place.store, place.runs, is_again=True))
        wanted = finished if is_again else [each for each in finished if not _is_verified(each, place.by_jobs)]
        total = sum(each.record.checkpoint.size_bytes for each in wanted)
        with show_progress(HEADINGS, total, is_quiet=is_json) as show, interruption.listen_to_signals():
            work = VerificationWork(place.store)
            outcomes = reading_command.read_all(place, work, wanted, interruption, show)
    left = len(wanted) - len(outcomes)
    done = _Verification(outcomes, len(finished) - len(wanted), left, is_stopped=interruption.is_stopped)
    if is_json:
        print_json(_document(done))
    else:
        _print_end(done)
    if done.is_stopped or any(each.result != COMPLETE for each in done.outcomes):
        raise SystemExit(EXIT_TROUBLE)


def _is_verified(wanted: WantedVerification, by_jobs: JobExecutor | None) -> bool:
    record = wanted.record
    return record.verified_full_at is not None or (by_jobs is not None and record.owner_verified_at is not None)


def _print_end(done: _Verification) -> None:
    if is_terminal() and done.outcomes:
        print_table(HEADINGS, [each.cells for each in done.outcomes], "")
    counts = Counter(each.result for each in done.outcomes)
    click.echo(f"{counts[COMPLETE]} complete, {counts[DAMAGED]} damaged, {counts[UNKNOWN]} unknown")
    if done.verified_before_count:
        click.echo(f"{done.verified_before_count} verified before; to read them again, use --again")
    if done.is_stopped:
        click.echo(f"Stopped by a signal: {done.not_reached_count} not read. The same command continues with them.")


def _document(done: _Verification) -> "VerifyDocument":
    return {
        "checkpoints": [
            {
                "path": str(each.wanted.record.checkpoint.path),
                "run": each.wanted.run.directory,
                "size_bytes": each.size_bytes,
                "result": each.result,
                "reason": each.reason,
            }
            for each in done.outcomes
        ],
        "copies": [],
        "verified_before": done.verified_before_count,
        "not_reached": done.not_reached_count,
        "is_stopped": done.is_stopped,
    }
