"""`ckptd jobs` and `ckptd flags`: list jobs and flags from the database."""

import shlex
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ckptd.cli.cluster_choice import ClusterChoice, choose_clusters, cluster_option
from ckptd.cli.command import friendly
from ckptd.cli.job_table import DISPENSABLE_COLUMNS, JOB_COLUMNS, job_cells
from ckptd.cli.listing_record import load_settings, open_record
from ckptd.cli.output import EXIT_TROUBLE, format_second, print_flag_text, print_json, print_prose, print_table, safe
from ckptd.core.model.records import JobRow
from ckptd.present import listings
from ckptd.present.evidence import name_flagged_job
from ckptd.store import plain_reads
from ckptd.store.light_reader import LightReader

if TYPE_CHECKING:  # pydantic would double the time that these commands take to start
    from ckptd.present.responses.job_documents import FlagDocument, FlagListDocument, JobListDocument

FLAG_COLUMNS = ("severity", "rule", "job", "user", "opened (UTC)", "run", "details")
ALL_FLAG_COLUMNS = (*FLAG_COLUMNS[:5], "resolved (UTC)", *FLAG_COLUMNS[5:])


@click.command()
@click.option("--user", metavar="USER", help="Show only jobs of USER.")
@click.option("--flagged", is_flag=True, help="Show only jobs with an open flag.")
@cluster_option
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--watch",
    "watch_seconds",
    type=click.FloatRange(1, 3600),
    is_flag=False,
    flag_value=5.0,
    metavar="[SECONDS]",
    help="Refresh the list every SECONDS seconds (default 5), flagged jobs first, until Ctrl-C. Needs a terminal.",
)
@click.pass_context
@friendly
def jobs(
    context: click.Context,
    user: str | None,
    flagged: bool,
    asked: str | None,
    is_json: bool,
    watch_seconds: float | None,
) -> None:
    """List the started jobs, their time left and newest checkpoint.

    The column `saved` shows the age of the newest checkpoint, `size` that of all checkpoints of the run on disk.
    `restarts` counts the requeues of the job. A narrow terminal leaves out some columns; a pipe gets all.
    """
    now = datetime.now(UTC)
    if watch_seconds is not None and (is_json or not sys.stdout.isatty()):
        raise click.UsageError("--watch needs a terminal and cannot be combined with --json")
    settings = load_settings(context)
    with open_record(settings) as record:
        with record.begin() as select:
            clusters = plain_reads.read_status(select)
            chosen = choose_clusters(asked, settings.cluster, clusters)
            if watch_seconds is None:
                found = plain_reads.list_jobs(select, now, cluster=chosen.name, user=user, flagged_only=flagged)
        if watch_seconds is not None:
            _watch(record, chosen, user, watch_seconds, is_flagged_only=flagged)
            return
    polls = [each.polled_at for each in clusters if each.polled_at and chosen.shows(each.cluster)]
    rows = [listings.job_row(row, now) for row in found]
    if is_json:
        document: JobListDocument = {"jobs": rows, "polled_at": max(polls, default=None)}
        print_json(document)
    else:
        table = [chosen.cells(row["cluster"], job_cells(row)) for row in rows]
        empty = _describe_no_jobs(user, is_polled=bool(polls), is_flagged_only=flagged)
        print_table(chosen.columns(JOB_COLUMNS), table, empty, dispensable=DISPENSABLE_COLUMNS)


def _describe_no_jobs(user: str | None, *, is_polled: bool, is_flagged_only: bool) -> str:
    if not is_polled:
        return "The queue was not polled yet. `ckptd status` shows why."
    owner = f" of {user}" if user else ""
    return f"The queue contains no started job{owner}{' with an open flag' if is_flagged_only else ''}."


def _watch(
    record: LightReader, chosen: ClusterChoice, user: str | None, seconds: float, *, is_flagged_only: bool
) -> None:
    from ckptd.cli import watch  # noqa: PLC0415 - only this needs rich

    def read(now: datetime) -> tuple[JobRow, ...]:
        with record.begin() as select:
            return plain_reads.list_jobs(select, now, cluster=chosen.name, user=user, flagged_only=is_flagged_only)

    watch.show_jobs(read, chosen, seconds)


@click.command()
@click.option("--all", "is_all", is_flag=True, help="Also show resolved flags.")
@cluster_option
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def flags(context: click.Context, is_all: bool, asked: str | None, is_json: bool) -> None:
    """List open flags, the problems that ckptd found.

    The most severe flags come first, with --all the oldest. A terminal shows each flag with its advice. In a pipe, each
    flag is one line, with the `ckptd show` command that prints the details. The exit status is 1 if any flag is open.
    """
    settings = load_settings(context)
    with open_record(settings) as record, record.begin() as select:
        chosen = choose_clusters(asked, settings.cluster, plain_reads.read_status(select))
        found = plain_reads.read_flags(select, cluster=chosen.name, include_resolved=is_all)
    if not is_all:
        found = tuple(sorted(found, key=lambda flag: -flag.finding.severity.rank))  # of one severity, oldest first
    rows = [listings.flag_row(flag) for flag in found]
    if is_json:
        document: FlagListDocument = {"flags": rows}
        print_json(document)
    elif sys.stdout.isatty() and rows:
        for row in rows:
            _print_flag(row, chosen)
    else:
        is_named = chosen.is_column_shown or asked is not None
        table = [
            chosen.cells(row["cluster"], _flag_cells(row, is_cluster_named=is_named, is_all=is_all)) for row in rows
        ]
        columns, empty = (ALL_FLAG_COLUMNS, "No flags recorded.") if is_all else (FLAG_COLUMNS, "No open flags.")
        print_table(chosen.columns(columns), table, empty)
    if any(row["resolved_at"] is None for row in rows):
        raise SystemExit(EXIT_TROUBLE)


def _flag_cells(row: "FlagDocument", *, is_cluster_named: bool, is_all: bool = False) -> tuple[object, ...]:
    """Return one flag's line; the command in it shows the evidence and the advice."""
    job = name_flagged_job(row["job_id"], row["evidence"])
    named = job or shlex.quote(row["run"])
    times = [format_second(row["opened_at"])]
    if is_all:
        times.append(format_second(row["resolved_at"]) if row["resolved_at"] else "-")
    command = f"ckptd show {named}" + (f" --cluster {shlex.quote(row['cluster'])}" if is_cluster_named else "")
    run = row["run"] if row["run"].startswith("/") else "directory unknown"
    return row["severity"], row["rule"], job, row["user"], *times, run, command


def _print_flag(row: "FlagDocument", chosen: ClusterChoice) -> None:
    """Print one flag on a terminal, where a table would squeeze the advice into a narrow column."""
    over = ", resolved" if row["resolved_at"] else ""
    where = f" on {row['cluster']}" if chosen.is_column_shown else ""
    job = f"job {name_flagged_job(row['job_id'], row['evidence'])} of {row['user']}{where}"
    click.secho(safe(f"{row['severity']}: {row['rule']}, {job}{over}"), bold=True)
    if row["run"].startswith("/") and row["run"] not in row["statement"]:
        print_prose(f"In {row['run']}:")
    print_flag_text(row)
