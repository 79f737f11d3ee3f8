"""`ckptd report`: the lost work of a period, by user, account, partition, cause, rule or cluster."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from ckptd.cli.cluster_choice import choose_clusters, cluster_option
from ckptd.cli.command import friendly
from ckptd.cli.listing_record import load_settings, open_record
from ckptd.cli.output import format_second, print_json, print_table
from ckptd.core.runs.lost_work_totals import GroupedBy
from ckptd.core.text.quantities import parse_duration
from ckptd.present import lost_work_report
from ckptd.store import plain_reads
from ckptd.store.read_parts import Snapshot

if TYPE_CHECKING:  # the command starts without pydantic
    from ckptd.present.responses.lost_work_documents import LostWorkReportDocument

LONGEST = timedelta(days=3660)


class _Duration(click.ParamType[timedelta]):
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        found = parse_duration(value)
        if not isinstance(found, timedelta) or not timedelta(0) < found <= LONGEST:
            self.fail(f'{value!r} is not a duration of up to ten years; use for example "7d" or "12h"', param, ctx)
        return found


@click.command()
@click.option("--since", "age", type=_Duration(), default="7d", metavar="DURATION", show_default=True,
              help="Count the attempts that ended in the last DURATION.")  # fmt: skip
@click.option("--by", type=click.Choice([each.value for each in GroupedBy]), default="user", show_default=True,
              help="Add up by user, account, partition, cause of end, rule, or cluster.")  # fmt: skip
@cluster_option
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def report(context: click.Context, age: timedelta, by: str, asked: str | None, is_json: bool) -> None:
    """Add up the lost work of ended jobs.

    Unsaved work is the time between an attempt's newest usable checkpoint and its end. Redone work was saved and is
    computed again, because a later attempt did not resume from it. Where ckptd is not certain, it prints bounds, and
    counts the attempts about which nothing is known. By rule, an attempt counts under each rule that had a flag about
    it, so these rows overlap.
    """
    from ckptd.store.lost_work_sums import LostWorkSumReader  # noqa: PLC0415 - --help needs none of it

    now = datetime.now(UTC)
    since, group = now - age, GroupedBy(by)
    settings = load_settings(context)
    with open_record(settings) as record, record.begin() as select:
        cluster = choose_clusters(asked, settings.cluster, plain_reads.read_status(select)).name
        lost_work_sums = LostWorkSumReader(Snapshot(select))
        document = lost_work_report.read_report(
            lambda each: lost_work_sums.sum_by(each, since, cluster=cluster), group, since, now
        )
    if is_json:
        print_json(document)
    else:
        _print(document, group)


def _print(document: "LostWorkReportDocument", group: GroupedBy) -> None:
    rows = [(lost_work_report.name_row(row, group), *lost_work_report.cells(row)) for row in document["rows"]]
    empty = f"No attempt has ended since {format_second(document['since'])} UTC."
    if rows:
        rows.append(("all", *lost_work_report.cells(document["total"])))
    print_table((group, *lost_work_report.COLUMNS), rows, empty)
