"""Runs the checks of `ckptd doctor` and prints one line for each finding."""

import os
from collections import Counter
from typing import TYPE_CHECKING

import click

from ckptd.cli.output import EXIT_FINE, EXIT_TROUBLE, print_json, safe
from ckptd.present.formatting import format_count
from ckptd.service.doctor.checks import run_all
from ckptd.service.doctor.findings import Verdict
from ckptd.service.doctor.separate_checks import CheckedTopic

if TYPE_CHECKING:
    from ckptd.present.responses.doctor_documents import DoctorDocument


def print_report(context: click.Context, *, is_json: bool, timeout_seconds: float) -> None:
    """Run all checks, print what they found, and exit with 1 if there is an error."""
    found: list[CheckedTopic] = []
    for each in run_all(context.find_root().params.get("config"), os.environ, timeout_seconds):
        found.append(each)
        if not is_json:
            _print_line(each)
    counts = Counter(each.finding.verdict for each in found)
    if is_json:
        document: DoctorDocument = {
            "checks": [
                {
                    "topic": topic,
                    "account": account,
                    "verdict": finding.verdict.value,
                    "text": safe(finding.text),
                    "advice": safe(finding.advice) if finding.advice else None,
                }
                for topic, account, finding in found
            ],
            "errors": counts[Verdict.ERROR],
            "warnings": counts[Verdict.WARNING],
        }
        print_json(document)
    else:
        errors = format_count(counts[Verdict.ERROR], "error")
        click.echo(f"{errors}, {format_count(counts[Verdict.WARNING], 'warning')}")
    raise SystemExit(EXIT_TROUBLE if counts[Verdict.ERROR] else EXIT_FINE)


def _print_line(each: CheckedTopic) -> None:
    finding = each.finding
    advice = f". {safe(finding.advice[:1].upper() + finding.advice[1:])}" if finding.advice else ""
    click.echo(f"{finding.verdict:<8}{each.topic} ({safe(each.account)}): {safe(finding.text)}{advice}")
