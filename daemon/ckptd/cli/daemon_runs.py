"""Runs the daemon's steps with the configuration that a command names, continuously or once."""

import logging
import os
import threading
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import click

from ckptd.checkpoints.agent.client import AgentGoneError, AgentRefusedError
from ckptd.cli.output import EXIT_FINE, EXIT_TROUBLE, print_json
from ckptd.cli.whole_config import load_config
from ckptd.core.fleet.snapshot import Report
from ckptd.core.model import Unknown
from ckptd.core.notices.delivery import SendResult
from ckptd.present.formatting import format_count
from ckptd.present.responses.status_documents import OnceDocument, ReportDocument
from ckptd.service import build, daily_expiry
from ckptd.service.command_lease import take_lease
from ckptd.service.daemon import Daemon
from ckptd.service.lease_keeper import LeaseKeeper
from ckptd.service.log_output import start_logging
from ckptd.service.open_database import open_store
from ckptd.service.step_runner import write_lines
from ckptd.service.step_table import make_runner, run_once
from ckptd.service.summary_lines import describe_report
from ckptd.steps.state import begin
from ckptd.store.database_errors import SchemaError, StoreError, WrongDatabaseError

NOT_POLLED = "Slurm could not be polled, so no rule was evaluated"


def run_daemon(context: click.Context, log_format: str, reload_asked: threading.Event) -> None:
    """Run the daemon until it is stopped; it reloads its configuration whenever SIGHUP has set the event."""
    config = load_config(context)
    start_logging(config.service.log_level, log_format, os.environ)
    try:
        status = Daemon(config, context.find_root().params["config"], os.environ, reload_asked).run()
    except (SchemaError, WrongDatabaseError, AgentRefusedError):
        raise  # only an administrator can put that right: the unit does not restart after status 2
    except (StoreError, AgentGoneError) as error:
        logging.getLogger("ckptd").error("the daemon ends: %s", error)  # noqa: TRY400 - the text says it all
        raise SystemExit(EXIT_TROUBLE) from error
    raise SystemExit(status)


def run_steps_once(context: click.Context, log_format: str, *, is_json: bool) -> None:
    """Run every step once, and print what was found and sent."""
    config = load_config(context)
    start_logging(config.service.log_level, log_format, os.environ)
    helpers = build.start_helpers(config, context.find_root().params["config"])
    try:
        now = datetime.now(UTC)
        opened = build.open_cluster(config, helpers, make_runner(), now)
        if isinstance(opened, Unknown):
            click.echo(f"Slurm: {opened.reason}", err=True)
            raise SystemExit(EXIT_TROUBLE)
        keeper = LeaseKeeper(open_store(config, is_upgraded=False), opened.cluster, "once")
        with take_lease(keeper) as term:
            leased = opened.store.with_lease(opened.cluster, term.epoch, term.continuity)
            parts = build.build(config, replace(opened, store=leased, term=term))
            now = datetime.now(UTC)
            state = begin(parts, now)
            expires = partial(daily_expiry.claim_day, config.state_directory, now)
            run_once(parts, state, now, expires=expires, write=lambda result: write_lines(result.lines))
        parts.store.close()
    finally:
        helpers.close()
    report = state.latest(Report)
    sent_count = sum(count for (_, result), count in report.messages_by_result.items() if result == SendResult.SENT)
    waiting_count = sum(report.outbox.waiting.values())
    if is_json:
        document: OnceDocument = {
            **_report_document(report),
            "messages_sent": sent_count,
            "waiting_notices": waiting_count,
        }
        print_json(document)
    else:
        click.echo(NOT_POLLED if report.slurm_trouble else describe_report(report))  # the log has the reason
        if sent_count or waiting_count:
            waiting = f"{format_count(waiting_count, 'notice')} waiting until due or for a retry"
            click.echo(f"{format_count(sent_count, 'message')} sent, {waiting}")
    has_unsent = any(result != SendResult.SENT for _, result in report.messages_by_result)
    raise SystemExit(EXIT_TROUBLE if report.slurm_trouble or report.flags_by_rule or has_unsent else EXIT_FINE)


def _report_document(report: Report) -> ReportDocument:
    return {
        "cluster": report.cluster,
        "made_at": report.made_at,
        "slurm_trouble": report.slurm_trouble,
        "polled_at": report.polled_at,
        "scanned_at": report.scanned_at,
        "jobs_by_state": dict(report.jobs_by_state),
        "runs_by_locator": dict(report.runs_by_locator),
        "flags": {rule: count for (rule, _), count in report.flags_by_rule.items()},
        "checkpoints": {f"{name}/{state}": count for (name, state), count in report.checkpoints_by_format.items()},
    }
