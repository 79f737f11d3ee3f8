"""Flags that open at once are a line each, or one for each rule if they are many."""

from ckptd.core.model import Finding, RunKey, Severity
from ckptd.steps.opened_flag_lines import MAX_LINES, list_opened


def finding(number, rule, user="alice"):
    run = RunKey("c1", 1000, f"/scratch/{number}")
    return Finding(
        rule=rule, severity=Severity.WARNING, run=run, job_id=number, user=user, evidence={}, audience=("user",)
    )


def test_a_few_flags_are_a_line_each_with_what_they_are_about():
    lines = list_opened([finding(number, "at-risk") for number in range(MAX_LINES)])
    assert len(lines) == MAX_LINES
    assert lines[3].text == "flag at-risk opened: job 3 of 'alice'"
    assert dict(lines[3].fields) == {
        "run": "/scratch/3",
        "job": 3,
        "user": "alice",
        "rule": "at-risk",
    }


def test_many_flags_are_one_line_for_each_rule():
    found = [finding(number, "no-room", f"user{number % 3}") for number in range(5000)]
    found.append(finding(1, "at-risk"))
    assert [(line.text, dict(line.fields)) for line in list_opened(found)] == [
        ("flag at-risk opened: 1 job of 1 user", {"rule": "at-risk"}),
        ("flag no-room opened: 5,000 jobs of 3 users", {"rule": "no-room"}),
    ]
