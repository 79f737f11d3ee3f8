"""Flags that open or are resolved at once are a line each, or one for each rule if they are many."""

import logging
from datetime import UTC, datetime

from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Finding, Flag, RunKey, Severity
from ckptd.steps.flag_lines import MAX_LINES, list_changed

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def flag(number, rule, user="alice", severity=Severity.WARNING):
    run = RunKey("c1", 1000, f"/scratch/{number}")
    finding = Finding(rule=rule, severity=severity, run=run, job_id=number, user=user, evidence={}, audience=("user",))
    return Flag(finding=finding, opened_at=NOW)


def test_a_few_flags_are_a_line_each_with_what_they_are_about():
    lines = list_changed(FlagChanges(opened=tuple(flag(number, "at-risk") for number in range(MAX_LINES))))
    assert len(lines) == MAX_LINES
    assert lines[3].text == "flag at-risk opened: job 3 of 'alice'"
    assert lines[3].level == logging.WARNING
    assert dict(lines[3].fields) == {
        "run": "/scratch/3",
        "job": 3,
        "user": "alice",
        "rule": "at-risk",
    }


def test_many_flags_are_one_line_for_each_rule():
    opened = [flag(number, "no-room", f"user{number % 3}") for number in range(5000)]
    opened.append(flag(1, "at-risk"))
    resolved = tuple(flag(number, "at-risk") for number in range(11))
    assert [
        (line.text, dict(line.fields)) for line in list_changed(FlagChanges(opened=tuple(opened), resolved=resolved))
    ] == [
        ("flag at-risk opened: 1 job of 1 user", {"rule": "at-risk"}),
        ("flag no-room opened: 5,000 jobs of 3 users", {"rule": "no-room"}),
        ("flag at-risk resolved: 11 jobs of 1 user", {"rule": "at-risk"}),
    ]


def test_only_what_needs_attention_is_a_warning():
    notable = flag(1, "no-checkpoints", severity=Severity.INFO), flag(2, "damaged", severity=Severity.CRITICAL)
    lines = list_changed(FlagChanges(opened=notable, resolved=(flag(3, "at-risk"),)))
    assert [(line.level, line.text) for line in lines] == [
        (logging.INFO, "flag no-checkpoints opened: job 1 of 'alice'"),
        (logging.WARNING, "flag damaged opened: job 2 of 'alice'"),
        (logging.INFO, "flag at-risk resolved: job 3 of 'alice'"),
    ]
