"""`ckptd run`, `once` and `status`: the daemon itself."""

import logging
import os
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from ckptd import steps
from ckptd.cli.context import friendly, load_config, open_existing_store
from ckptd.cli.output import EXIT_FINE, EXIT_TROUBLE, format_duration, print_json, print_table
from ckptd.config import Config
from ckptd.core.fleet.snapshot import Report
from ckptd.core.job_actions import action_policy
from ckptd.core.model import Unknown
from ckptd.core.model.records import ClusterStatus
from ckptd.core.notices.outbox import Result
from ckptd.core.text.formatting import format_count
from ckptd.service import build
from ckptd.service.daemon import Daemon, describe
from ckptd.service.daily_expiry import expire_daily
from ckptd.steps import act
from ckptd.steps.prune import pause_record
from ckptd.steps.send import Sender
from ckptd.store.store import Store

STATUS_COLUMNS = (
    "cluster", "daemon", "slurm", "last poll", "accounting", "last scan", "last heartbeat", "last mail", "mail due",
    "retention", "actions",
)  # fmt: skip
LATE_MAIL = timedelta(hours=1)  # after which status calls it trouble


@click.command()
@click.pass_context
@friendly
def run(context: click.Context) -> None:
    """Run the daemon in the foreground until SIGTERM; reload the configuration on SIGHUP."""
    config = load_config(context)
    _start_logging(config)
    raise SystemExit(Daemon(config, context.find_root().params["config"], os.environ).run())


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print the report as JSON.")
@click.pass_context
@friendly
def once(context: click.Context, is_json: bool) -> None:
    """Run one cycle, send the mail that is due and print a report; once a day delete expired records.

    The exit status is 1 if a flag is open, Slurm does not answer, or a message could not be sent.
    """
    config = load_config(context)
    _start_logging(config)
    helpers = build.start_helpers(config)
    try:
        now = datetime.now(UTC)
        opened = build.open_cluster(config, helpers, now)
        if isinstance(opened, Unknown):
            click.echo(f"Slurm: {opened.reason}", err=True)
            raise SystemExit(EXIT_TROUBLE)
        parts = build.build(config, opened)
        assert parts.post is not None
        state = steps.begin(parts, now)
        report = steps.run_cycle(parts, state, now)
        sender = Sender(post=parts.post, clock=lambda: datetime.now(UTC))
        steps.repeat_notices(parts, state, now)
        sent_count = sender.send_due(datetime.now(UTC))
        outbox = parts.store.read_outbox(parts.cluster, now)
        expire_daily(config.state_directory, parts, state, config.store.keep, now)
        parts.store.close()
    finally:
        helpers.close()
    waiting_count = sum(outbox.waiting.values())
    if is_json:
        print_json(_report_document(report) | {"messages_sent": sent_count, "waiting_notices": waiting_count})
    else:
        click.echo(describe(report))
        if sent_count or waiting_count:
            waiting = f"{format_count(waiting_count, 'notice')} waiting until due or for a retry"
            click.echo(f"{format_count(sent_count, 'message')} sent, {waiting}")
    has_unsent = any(result != Result.SENT for _, result in sender.results)
    raise SystemExit(EXIT_TROUBLE if report.slurm_trouble or report.flags_by_rule or has_unsent else EXIT_FINE)


def _start_logging(config: Config) -> None:
    is_journal = "JOURNAL_STREAM" in os.environ
    logging.basicConfig(
        level=config.service.log_level.upper(),
        stream=sys.stderr,
        format="%(levelname)s %(message)s" if is_journal else "%(asctime)s %(levelname)s %(message)s",
    )
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _report_document(report: Report) -> dict[str, Any]:
    return {
        "cluster": report.cluster,
        "made_at": report.made_at,
        "slurm_trouble": report.slurm_trouble,
        "polled_at": report.polled_at,
        "scanned_at": report.scanned_at,
        "jobs_by_state": report.jobs_by_state,
        "runs_by_locator": report.runs_by_locator,
        "flags": {rule: count for (rule, _), count in report.flags_by_rule.items()},
        "checkpoints": {f"{name}/{state}": count for (name, state), count in report.checkpoints_by_format.items()},
    }


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def status(context: click.Context, is_json: bool) -> None:
    """Show whether the daemon is running, and the age of its last poll, scan and mail.

    The exit status is 1 if the daemon is not running, Slurm does not answer, pruning is stopped or mail is late.
    """
    config = load_config(context)
    now = datetime.now(UTC)
    with open_existing_store(config) as store:
        rows = [
            _status_row(cluster, now, config.slurm.poll_interval)
            | _mail_row(store, cluster.cluster, now)
            | _retention_row(store, cluster.cluster)
            | _acts_row(store, cluster.cluster, config.actions.max_per_hour, now)
            for cluster in store.read_status()
        ]
    if is_json:
        print_json({"clusters": rows, "database": "answers"})
    else:
        table = [_status_line(row, now) for row in rows]
        print_table(STATUS_COLUMNS, table, "The daemon has never run with this database.")
    raise SystemExit(EXIT_FINE if rows and all(_is_well(row, now) for row in rows) else EXIT_TROUBLE)


def _status_line(row: dict[str, Any], now: datetime) -> tuple[str, ...]:
    """Return a cluster's cells for STATUS_COLUMNS."""
    return (
        row["cluster"],
        "alive" if row["is_alive"] else "not running",
        row["slurm_trouble"] or "answers",
        _age(row["polled_at"], now),
        f"missing since {_age(row['unseen_since'], now)}" if row["unseen_since"] else "up to date",
        _age(row["scanned_at"], now),
        _age(row["heartbeat_at"], now),
        _age(row["mailed_at"], now),
        f"since {_age(row['mail_due_at'], now)}" if row["mail_due_at"] else "none",
        f"stopped: {row['retention_stopped']}" if row["retention_stopped"] else "not stopped",
        _tell_acts(row),
    )


def _is_well(row: dict[str, Any], now: datetime) -> bool:
    is_mail_late = row["mail_due_at"] is not None and now - row["mail_due_at"] > LATE_MAIL
    is_stopped = row["slurm_trouble"] or row["retention_stopped"]
    return row["is_alive"] and row["polled_at"] and not is_stopped and not is_mail_late


def _retention_row(store: Store, cluster: str) -> dict[str, Any]:
    """Return why the clock stops pruning; None if it does not."""
    return {"retention_stopped": next((entry.reasons[0] for entry in pause_record.read_open(store, cluster)), None)}


def _acts_row(store: Store, cluster: str, max_per_hour: int, now: datetime) -> dict[str, Any]:
    """Count the actions on jobs within the last hour, and name the kinds that have reached someone's limit."""
    counts = store.count_audited_by_owner(cluster, act.ACTOR, now - timedelta(hours=1))
    full = {kind for kind, owner in counts if not action_policy.has_room(kind, owner, counts, max_per_hour)}
    return {"acts_in_the_hour": sum(counts.values()), "acts_at_their_limit": sorted(full)}


def _tell_acts(row: dict[str, Any]) -> str:
    full = ", ".join(row["acts_at_their_limit"])
    return f"{row['acts_in_the_hour']} in the last hour{f', limit reached: {full}' if full else ''}"


def _status_row(cluster: ClusterStatus, now: datetime, poll_interval: timedelta) -> dict[str, Any]:
    heartbeat_at = cluster.heartbeat_at
    is_alive = heartbeat_at is not None and now - heartbeat_at < max(timedelta(seconds=90), poll_interval)
    return {
        "cluster": cluster.cluster,
        "is_alive": is_alive,
        "daemon": f"{cluster.daemon.host} pid {cluster.daemon.pid}" if cluster.daemon else None,
        "polled_at": cluster.polled_at,
        "unseen_since": cluster.unseen_since,
        "scanned_at": cluster.scanned_at,
        "heartbeat_at": heartbeat_at,
        "slurm_trouble": cluster.poll_trouble.reason if cluster.poll_trouble else None,
    }


def _mail_row(store: Store, cluster: str, now: datetime) -> dict[str, Any]:
    outbox = store.read_outbox(cluster, now)
    return {
        "mailed_at": store.read_last_sent_at(cluster),
        "mail_due_at": outbox.oldest_due_at,
        "waiting_notices": sum(outbox.waiting.values()),
    }


def _age(at: datetime | None, now: datetime) -> str:
    return "never" if at is None else f"{format_duration(now - at)} ago"
