"""Verifies checkpoints on this node, one after the other, and shows the progress."""

import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from ckptd.checkpoints.executor import Executor, LocalExecutor, Ticket, TicketState, VerificationRequest
from ckptd.cli.output import EXIT_TROUBLE, format_size, print_json, print_table, safe
from ckptd.cli.writable_scope import open_scope
from ckptd.core.model import Checkpoint, CheckpointState, RunKey, Unknown
from ckptd.service.agent_start import start_agent
from ckptd.service.command_lease import join_or_take_lease
from ckptd.steps.record_verification import CHANGED, WantedVerification, list_wanted, verify_now
from ckptd.store.store import Store

if TYPE_CHECKING:
    from ckptd.present.responses.verify_documents import VerifyDocument

Result = Literal["complete", "damaged", "unknown"]
COMPLETE: Result = "complete"
DAMAGED: Result = "damaged"
UNKNOWN: Result = "unknown"
HEADINGS = ("result", "checkpoint", "size", "reason")


class _StoppedError(Exception):
    """A signal arrived while bytes were read."""


@dataclass(slots=True)
class _InterruptibleExecutor:
    """Stops reading at the first SIGINT or SIGTERM. A result that is being recorded is recorded first."""

    inner: Executor
    is_stopped: bool = False
    _is_reading: bool = False

    def submit(self, request: VerificationRequest) -> Ticket | Unknown:
        return self.inner.submit(request)

    def follow(self, ticket: Ticket) -> TicketState | Unknown:
        return self.inner.follow(ticket)

    def collect(self, ticket: Ticket) -> tuple[Checkpoint, ...] | Unknown:
        self._is_reading = True
        try:
            if self.is_stopped:
                raise _StoppedError
            return self.inner.collect(ticket)
        finally:
            self._is_reading = False

    def cancel(self, ticket: Ticket) -> None:
        self.inner.cancel(ticket)

    @contextmanager
    def listen_to_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.is_stopped = True
        if self._is_reading:
            self._is_reading = False
            raise _StoppedError


class _Outcome(NamedTuple):
    wanted: WantedVerification
    result: Result
    reason: str | None

    @property
    def size_bytes(self) -> int:
        return self.wanted.record.checkpoint.size_bytes

    @property
    def cells(self) -> tuple[str, str, str, str | None]:
        found = self.wanted.record.checkpoint
        return self.result, str(found.path), format_size(found.size_bytes), self.reason


class _Verification(NamedTuple):
    """What the command has done."""

    outcomes: list[_Outcome]
    verified_before_count: int
    not_reached_count: int
    is_stopped: bool


def verify_runs(context: click.Context, names: tuple[str, ...], *, is_again: bool, is_json: bool) -> None:
    """Verify the checkpoints of the named runs, or of all; print each result, and record it."""
    with (
        open_scope(context, names) as desk,
        closing(start_agent(context.find_root().params.get("config"), is_person=True)) as agent,
        join_or_take_lease(desk.store, desk.cluster, "verify") as store,
    ):
        keys = desk.keys if desk.keys is not None else tuple(store.runs.list_keys())
        runs = [key for key in dict.fromkeys(keys) if key.cluster == desk.cluster and key.is_located]
        executor = _InterruptibleExecutor(LocalExecutor(agent, desk.site.verify_deadline))
        done = _verify_all(store, executor, runs, is_again=is_again, is_quiet=is_json)
    if is_json:
        print_json(_document(done))
    else:
        _print_end(done)
    if done.is_stopped or any(each.result != COMPLETE for each in done.outcomes):
        raise SystemExit(EXIT_TROUBLE)


def _verify_all(
    store: Store, executor: _InterruptibleExecutor, runs: list[RunKey], *, is_again: bool, is_quiet: bool
) -> _Verification:
    finished = list(list_wanted(store, runs, is_again=True))
    wanted = finished if is_again else [each for each in finished if each.record.verified_full_at is None]
    outcomes: list[_Outcome] = []
    total = sum(each.record.checkpoint.size_bytes for each in wanted)
    with _show_progress(is_quiet=is_quiet) as show, executor.listen_to_signals():
        show(None, 0, total)
        for each in wanted:
            try:
                outcome = _verify(store, executor, each)
            except _StoppedError:
                break
            outcomes.append(outcome)
            show(outcome, sum(one.size_bytes for one in outcomes), total)
    left = len(wanted) - len(outcomes)
    return _Verification(outcomes, len(finished) - len(wanted), left, is_stopped=executor.is_stopped)


def _verify(store: Store, executor: Executor, wanted: WantedVerification) -> _Outcome:
    found = verify_now(store, executor, wanted.run, [wanted.record], datetime.now(UTC))
    if isinstance(found, Unknown):
        return _Outcome(wanted, UNKNOWN, found.reason)
    judged = next((each.checkpoint for each in found.changed), None)
    if judged is None:
        return _Outcome(wanted, UNKNOWN, CHANGED)
    return _Outcome(wanted, COMPLETE if judged.state is CheckpointState.COMPLETE else DAMAGED, judged.reason)


@contextmanager
def _show_progress(*, is_quiet: bool) -> "Iterator[Callable[[_Outcome | None, int, int], None]]":
    """Yield a function that shows an outcome, the bytes read so far, and how many there are.

    On a terminal, it moves a progress bar. Otherwise it prints a line for each checkpoint at once.
    """
    if sys.stderr.isatty() and sys.stdout.isatty():
        from ckptd.cli import progress_bar  # noqa: PLC0415 - only such a terminal needs rich

        with progress_bar.show() as advance:
            yield lambda _outcome, done, total: advance(done, total)
        return

    def print_line(outcome: _Outcome | None, _done: int, total: int) -> None:
        if total and not is_quiet:
            cells = HEADINGS if outcome is None else outcome.cells
            click.echo("\t".join(safe(cell or "-") for cell in cells))

    yield print_line


def _print_end(done: _Verification) -> None:
    if sys.stderr.isatty() and sys.stdout.isatty() and done.outcomes:
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
        "verified_before": done.verified_before_count,
        "not_reached": done.not_reached_count,
        "is_stopped": done.is_stopped,
    }
