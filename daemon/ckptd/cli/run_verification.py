"""Verifies checkpoints on this node, one after the other, or by jobs of their owners, and shows the progress."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from ckptd.checkpoints.executor import LocalExecutor, VerifyPlace
from ckptd.checkpoints.verify_jobs.job_executor import JobExecutor
from ckptd.cli.interruption import InterruptibleExecutor, Interruption, StoppedError
from ckptd.cli.job_verification import JobVerification, ShowProgress
from ckptd.cli.output import EXIT_TROUBLE, print_json, print_table, safe
from ckptd.cli.verified_checkpoints import COMPLETE, DAMAGED, UNKNOWN, VerifiedCheckpoint, list_verified
from ckptd.cli.whole_config import load_config
from ckptd.cli.writable_scope import open_scope
from ckptd.service.agent_start import start_agent
from ckptd.service.build_verification import build_job_executor, find_verify_place
from ckptd.service.command_lease import join_or_take_lease
from ckptd.steps.record_verification import WantedVerification, list_wanted, verify_now
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


def verify_runs(
    context: click.Context, names: tuple[str, ...], *, is_again: bool, is_here: bool, is_json: bool
) -> None:
    """Verify the checkpoints of the named runs, or of all; print each result, and record it."""
    with (
        open_scope(context, names) as desk,
        closing(start_agent(context.find_root().params.get("config"), is_person=True)) as agent,
        join_or_take_lease(desk.store, desk.cluster, "verify") as store,
    ):
        keys = desk.keys if desk.keys is not None else tuple(store.runs.list_keys())
        runs = [key for key in dict.fromkeys(keys) if key.cluster == desk.cluster and key.is_located]
        local = LocalExecutor(agent, desk.site.verify_deadline)
        jobs = load_config(context).verify_jobs
        place = VerifyPlace.HERE if is_here else find_verify_place(jobs)
        by_jobs = None if place is VerifyPlace.HERE else build_job_executor(jobs, agent, store)
        finished = list(list_wanted(store, runs, is_again=True))
        wanted = finished if is_again else [each for each in finished if not _is_verified(each, by_jobs)]
        interruption = Interruption()
        with _show_progress(wanted, is_quiet=is_json) as show, interruption.listen_to_signals():
            if by_jobs is None:
                outcomes = _verify_here(store, local, wanted, interruption, show)
            else:
                command = JobVerification(
                    store=store,
                    executor=by_jobs,
                    fallback=InterruptibleExecutor(local, interruption) if place is VerifyPlace.JOBS_OR_HERE else None,
                    interruption=interruption,
                    show=show,
                )
                outcomes = command.verify(wanted)
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


def _verify_here(
    store: Store,
    executor: LocalExecutor,
    wanted: Sequence[WantedVerification],
    interruption: Interruption,
    show: ShowProgress,
) -> list[VerifiedCheckpoint]:
    outcomes: list[VerifiedCheckpoint] = []
    reading = InterruptibleExecutor(executor, interruption)
    for each in wanted:
        try:
            changes = verify_now(store, reading, each.run, [each.record], datetime.now(UTC))
        except StoppedError:
            break
        outcomes += list_verified([each], changes)
        show(outcomes[-1], 0)
    return outcomes


@contextmanager
def _show_progress(wanted: Sequence[WantedVerification], *, is_quiet: bool) -> Iterator[ShowProgress]:
    """Yield a function that shows a result, and the bytes that were read beyond those of all results so far.

    On a terminal, it moves a progress bar. Otherwise it prints a line for each checkpoint at once.
    """
    total = sum(each.record.checkpoint.size_bytes for each in wanted)
    if sys.stderr.isatty() and sys.stdout.isatty():
        from ckptd.cli import progress_bar  # noqa: PLC0415 - only such a terminal needs rich

        done = 0
        with progress_bar.show() as advance:

            def move_bar(outcome: VerifiedCheckpoint | None, further_bytes: int) -> None:
                nonlocal done
                done += 0 if outcome is None else outcome.size_bytes
                advance(done + further_bytes, total)

            move_bar(None, 0)
            yield move_bar
        return

    def print_cells(cells: Iterable[str | None]) -> None:
        if total and not is_quiet:
            click.echo("\t".join(safe(cell or "-") for cell in cells))

    print_cells(HEADINGS)
    yield lambda outcome, _further_bytes: None if outcome is None else print_cells(outcome.cells)


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
