"""The log lines about flags that opened."""

from collections import defaultdict

from ckptd.core.model import Finding
from ckptd.present.formatting import format_count
from ckptd.steps.results import LogLine, warning

MAX_LINES = 10  # of opened flags in one decision; more are summed up by rule


def list_opened(opened: list[Finding]) -> list[LogLine]:
    """Return a line for each opened flag, or for each rule if there are many."""
    if len(opened) <= MAX_LINES:
        return [
            warning(
                f"flag {each.rule} opened: job {each.job_id} of {each.user!a}",
                run=each.run.directory,
                job=each.job_id,
                user=each.user,
                rule=each.rule,
            )
            for each in opened
        ]
    users: dict[str, list[str]] = defaultdict(list)
    for each in opened:
        users[each.rule].append(each.user)
    return [
        warning(
            f"flag {rule} opened: {format_count(len(some), 'job')} of {format_count(len(set(some)), 'user')}", rule=rule
        )
        for rule, some in sorted(users.items())
    ]
