"""`ckptd status`: whether the daemon is running, and how recent its data in the database is."""

import sys
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from ckptd.cli.cluster_choice import choose_clusters, cluster_option
from ckptd.cli.command import friendly
from ckptd.cli.listing_record import load_settings, open_record
from ckptd.cli.output import EXIT_FINE, EXIT_TROUBLE, format_duration, print_json, print_table, safe
from ckptd.core.job_actions import hourly_limit
from ckptd.core.model.records import PAUSE, ClusterStatus
from ckptd.core.runs import shared_files
from ckptd.core.runs.shared_files import SharedDirectory, ShareTrouble
from ckptd.present.formatting import format_count, format_instant
from ckptd.store import plain_reads
from ckptd.store.plain_reads import Leadership, Select
from ckptd.store.shared_rows import read_clocks, read_declared

if TYPE_CHECKING:  # pydantic would double the time that this command takes to start
    from ckptd.present.responses.status_documents import (
        ActionStateFields,
        ClusterStateDocument,
        DaemonStateFields,
        LeaderStateFields,
        MailStateFields,
        PollStateFields,
        RetentionStateFields,
        SharedDirectoryDocument,
        StateDocument,
    )

STATUS_COLUMNS = (
    "cluster", "daemon", "slurm", "last poll", "accounting", "last scan", "last heartbeat", "last mail", "mail due",
    "pruning paused", "actions on jobs", "scans on nodes", "leader", "standby", "shared directories",
)  # fmt: skip
STANDBY_AGE = timedelta(seconds=30)  # since a standby was last seen
MISSED_POLLS = 3  # after so many without a recorded one, the exit status is 1
LATE_POLL = timedelta(minutes=1)  # but not before: Slurm may be slow
LATE_MAIL = timedelta(hours=1)  # mail that is due for longer makes the exit status 1
MAX_SKEW = timedelta(minutes=1)  # between the clocks of two daemons of one database


@click.command()
@cluster_option
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def status(context: click.Context, asked: str | None, is_json: bool) -> None:
    """Show whether the daemon is running and up to date.

    Prints the age of its last poll, scan and mail, and what is paused or overdue. The exit status is 1 if the daemon is
    not running, Slurm does not answer, no poll was recorded for three poll intervals (at least a minute), pruning is
    paused because of the clock, or mail has been due for more than an hour.
    """
    settings = load_settings(context)
    now = datetime.now(UTC)
    with open_record(settings) as record, record.begin() as select:
        clusters = plain_reads.read_status(select)
        declared, clocks = read_declared(select), read_clocks(select)
        chosen = choose_clusters(asked, settings.cluster, clusters)
        leaders = {
            each.cluster: plain_reads.read_leadership(select, each.cluster, now - STANDBY_AGE) for each in clusters
        }
        rows: list[ClusterStateDocument] = [
            {
                **_status_row(cluster, now, settings.poll_interval),
                **_poll_row(cluster, now, settings.poll_interval),
                **_leader_row(leaders[cluster.cluster]),
                **_mail_row(select, cluster.cluster, now),
                **_retention_row(select, cluster.cluster),
                **_actions_row(select, cluster.cluster, settings.max_per_hour, now),
                "shared_directories": _list_shared(declared, clocks, cluster.cluster),
            }
            for cluster in clusters
            if chosen.shows(cluster.cluster)
        ]
    if is_json:
        document: StateDocument = {"clusters": rows, "database": "answers"}
        print_json(document)
    else:
        table = [_status_line(row, now) for row in rows]
        if sys.stdout.isatty():
            for number, line in enumerate(table):
                if number:
                    click.echo()
                _print_lines(line)
        if not table or not sys.stdout.isatty():
            print_table(STATUS_COLUMNS, table, "The daemon has never run with this database.")
    raise SystemExit(EXIT_FINE if rows and all(_is_well(row, now) for row in rows) else EXIT_TROUBLE)


def _status_line(row: "ClusterStateDocument", now: datetime) -> tuple[str, ...]:
    """Return a cluster's cells for STATUS_COLUMNS."""
    return (
        row["cluster"],
        "running" if row["is_alive"] else "not running",
        row["slurm_trouble"] or "answers",
        _age(row["polled_at"], now) + (f" ({row['poll_delay']})" if row["poll_delay"] else ""),
        f"gap began {_age(row['backfill_since'], now)}" if row["backfill_since"] else "up to date",
        _age(row["scanned_at"], now),
        _age(row["heartbeat_at"], now),
        _age(row["mailed_at"], now),
        f"for {_format_since(row['mail_due_at'], now)}" if row["mail_due_at"] else "none",
        row["pruning_paused"] or "no",
        _format_actions(row),
        _format_node_scans(row),
        f"{row['leader']}, for {_format_since(row['leader_since'], now)}" if row["leader"] else "none",
        ", ".join(row["standbys"]) or "none",
        "; ".join(map(_format_shared, row["shared_directories"])) or "none",
    )


def _print_lines(cells: tuple[str, ...]) -> None:
    """Print one cluster on a terminal, where so many columns would be too narrow to read."""
    width = max(map(len, STATUS_COLUMNS))
    for name, cell in zip(STATUS_COLUMNS, cells, strict=True):
        click.echo(f"{name:<{width}}  {safe(cell)}")


def _is_well(row: "ClusterStateDocument", now: datetime) -> bool:
    is_mail_late = row["mail_due_at"] is not None and now - row["mail_due_at"] > LATE_MAIL
    is_stopped = row["slurm_trouble"] or row["poll_delay"] or row["pruning_paused"]
    return row["is_alive"] and row["polled_at"] is not None and not is_stopped and not is_mail_late


def _retention_row(select: Select, cluster: str) -> "RetentionStateFields":
    """Return why the clock stops pruning; None if it does not."""
    return {"pruning_paused": next(iter(plain_reads.read_unfinished_reasons(select, cluster, PAUSE)), None)}


def _actions_row(select: Select, cluster: str, max_per_hour: int, now: datetime) -> "ActionStateFields":
    """Count the actions on jobs within the last hour, and name the kinds that have reached someone's limit."""
    counts = plain_reads.count_audited_by_owner(select, cluster, hourly_limit.ACTOR, now - timedelta(hours=1))
    full = {kind for kind, owner in counts if not hourly_limit.has_room(kind, owner, counts, max_per_hour)}
    return {"actions_last_hour": sum(counts.values()), "actions_at_limit": sorted(full)}


def _list_shared(
    declared: Collection[SharedDirectory], clocks: Mapping[str, timedelta], cluster: str
) -> "list[SharedDirectoryDocument]":
    return [
        {
            "directory": each.directory,
            "cluster": each.other_cluster,
            "is_in_effect": (trouble := shared_files.find_trouble(each, declared, clocks)) is None,
            "trouble": trouble and _describe_trouble(trouble, each),
        }
        for each in declared
        if each.cluster == cluster
    ]


def _describe_trouble(trouble: ShareTrouble, shared: SharedDirectory) -> str:
    if trouble is ShareTrouble.CLOCKS:
        return f"the clocks of {shared.cluster} and {shared.other_cluster} differ"
    return f"{shared.other_cluster} does not declare it"


def _format_shared(shared: "SharedDirectoryDocument") -> str:
    doubt = "" if shared["trouble"] is None else f" (not in effect: {shared['trouble']})"
    return f"{shared['directory']} with {shared['cluster']}{doubt}"


def _format_actions(row: "ClusterStateDocument") -> str:
    full = ", ".join(row["actions_at_limit"])
    return f"{row['actions_last_hour']} in the last hour{f', limit reached: {full}' if full else ''}"


def _format_node_scans(row: "ClusterStateDocument") -> str:
    """Return what the steps in users' jobs cost since the daemon started."""
    if not row["node_scan_steps"]:
        return "none"
    duration = format_duration(timedelta(seconds=row["node_scan_seconds"]))
    return f"{format_count(row['node_scan_steps'], 'step')}, {duration}"


def _status_row(cluster: ClusterStatus, now: datetime, poll_interval: timedelta) -> "DaemonStateFields":
    """Return the recorded state; a daemon that has ended gave up the lease before its last heartbeat is old."""
    heartbeat_at = cluster.heartbeat_at
    is_recent = heartbeat_at is not None and now - heartbeat_at < max(timedelta(seconds=90), poll_interval)
    return {
        "cluster": cluster.cluster,
        "is_alive": is_recent and cluster.is_led,
        "daemon": f"{cluster.daemon.host} pid {cluster.daemon.pid}" if cluster.daemon else None,
        "polled_at": cluster.polled_at,
        "backfill_since": cluster.backfill_since,
        "scanned_at": cluster.scanned_at,
        "heartbeat_at": heartbeat_at,
        "slurm_trouble": cluster.poll_trouble.reason if cluster.poll_trouble else None,
        "node_scan_steps": cluster.node_scans.step_count,
        "node_scan_seconds": cluster.node_scans.seconds,
    }


def _poll_row(cluster: ClusterStatus, now: datetime, poll_interval: timedelta) -> "PollStateFields":
    """Return why the last poll is too old, though neither the daemon nor Slurm is known to be in trouble."""
    if cluster.polled_at is None or cluster.poll_trouble is not None:
        return {"poll_delay": None}
    since = max(cluster.polled_at, cluster.daemon.started_at) if cluster.daemon else cluster.polled_at
    if now - since <= max(MISSED_POLLS * poll_interval, LATE_POLL):
        return {"poll_delay": None}
    return {
        "poll_delay": f"no poll has been recorded for {format_duration(now - since)}, although slurm.poll_interval is"
        f" {format_duration(poll_interval)}: the database cannot be written, or Slurm is slow; the daemon's log has"
        " the reason"
    }


def _leader_row(found: Leadership) -> "LeaderStateFields":
    return {"leader": found.leader, "leader_since": found.since, "standbys": list(found.standbys)}


def _mail_row(select: Select, cluster: str, now: datetime) -> "MailStateFields":
    mail = plain_reads.read_mail_state(select, cluster, now)
    return {
        "mailed_at": mail.last_sent_at,
        "mail_due_at": mail.oldest_due_at,
        "waiting_notices": mail.waiting_count,
    }


def _format_since(at: datetime | None, now: datetime) -> str:
    return format_duration(None if at is None else max(now - at, timedelta(0)))


def _age(at: datetime | None, now: datetime) -> str:
    if at is not None and at > now + MAX_SKEW:
        return f"in the future, at {format_instant(at)}: the clock was set back since"
    return "never" if at is None else f"{_format_since(at, now)} ago"
