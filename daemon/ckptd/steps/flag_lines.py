"""The log lines about flags that opened or were resolved."""

import logging
from collections import defaultdict
from collections.abc import Sequence

from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Finding, Severity
from ckptd.present.formatting import format_count
from ckptd.steps.results import LogLine

MAX_LINES = 10  # of flags in one decision that opened, and as many that were resolved; more are summed up by rule


def list_changed(changes: FlagChanges) -> list[LogLine]:
    """Return a line for each flag that opened or was resolved, or for each rule if there are many."""
    return [
        *_list_lines("opened", [flag.finding for flag in changes.opened]),
        *_list_lines("resolved", [flag.finding for flag in changes.resolved]),
    ]


def _list_lines(what: str, found: Sequence[Finding]) -> list[LogLine]:
    if len(found) <= MAX_LINES:
        return [
            LogLine(
                _choose_level(what, [each]),
                f"flag {each.rule} {what}: job {each.job_id} of {each.user!a}",
                fields={"run": each.run.directory, "job": each.job_id, "user": each.user, "rule": each.rule},
            )
            for each in found
        ]
    by_rule: dict[str, list[Finding]] = defaultdict(list)
    for each in found:
        by_rule[each.rule].append(each)
    return [
        LogLine(_choose_level(what, some), _sum_up(rule, what, some), fields={"rule": rule})
        for rule, some in sorted(by_rule.items())
    ]


def _sum_up(rule: str, what: str, found: Sequence[Finding]) -> str:
    users = {each.user for each in found}
    return f"flag {rule} {what}: {format_count(len(found), 'job')} of {format_count(len(users), 'user')}"


def _choose_level(what: str, found: Sequence[Finding]) -> int:
    """Return the level of a line: what is resolved needs nobody's attention, and neither does information."""
    is_trouble = what == "opened" and any(each.severity is not Severity.INFO for each in found)
    return logging.WARNING if is_trouble else logging.INFO
