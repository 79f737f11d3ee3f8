"""The exact text of every rule, for evidence as the rules record it."""

import json
from dataclasses import replace
from datetime import timedelta, timezone

import pytest

from ckptd.core.health import RULES
from ckptd.core.model import Finding, Severity
from ckptd.core.notices import HELD_BACK, SAMPLE
from ckptd.present import flag_texts
from ckptd.present.labels import TITLES
from core.histories import RUN
from present.flag_cases import (
    copy_cases,
    interval_cases,
    mail_cases,
    purge_cases,
    restart_cases,
    storage_cases,
    time_limit_cases,
)

SUBJECTS = (copy_cases, interval_cases, mail_cases, purge_cases, restart_cases, storage_cases, time_limit_cases)
CASES = {name: case for subject in SUBJECTS for name, case in subject.CASES.items()}


def finding(rule, evidence, recorded_advice=""):
    return Finding(
        rule=rule,
        severity=Severity.WARNING,
        run=RUN,
        job_id=1,
        user="alice",
        evidence=evidence,
        recorded_advice=recorded_advice,
    )


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_rule_is_worded_from_its_evidence(case):
    recorded = json.loads(json.dumps(case.evidence))
    text = flag_texts.make_text(case.rule, recorded, user="alice")
    assert (text.statement, text.advice, text.command) == (case.statement, case.advice, case.command)
    assert text.title == TITLES[case.rule]
    assert text.advice.endswith(":") == (text.command is not None)


def test_every_rule_has_a_text_a_title_and_a_case():
    assert set(flag_texts.TEXTS) == set(TITLES) == {case.rule for case in CASES.values()}
    assert set(flag_texts.TEXTS) == {*RULES, HELD_BACK, SAMPLE}


def test_the_parts_of_a_text_join_to_one_paragraph():
    text = flag_texts.make_text("job-held", CASES["held"].evidence, user="alice")
    assert text.full_advice == f"{text.advice} scontrol release 1"
    assert text.paragraph == f"{text.statement} {text.advice} scontrol release 1"
    text = flag_texts.make_text("too-sparse", CASES["too sparse"].evidence, user="alice")
    assert text.paragraph == f"{text.statement} {text.advice}"


def try_word(rule, evidence):
    try:
        return flag_texts.make_text(rule, evidence, user="alice")
    except flag_texts.EvidenceError as error:
        return str(error)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_evidence_that_lacks_a_value_is_an_error_and_never_a_gap_in_a_sentence(case):
    whole = flag_texts.make_text(case.rule, case.evidence, user="alice")
    for name in case.evidence:
        less = {key: value for key, value in case.evidence.items() if key != name}
        assert try_word(case.rule, less) in (whole, f"{name} is missing")


def test_a_flag_that_an_earlier_version_recorded_keeps_its_text():
    text = flag_texts.make_recorded_text(finding("at-risk", {"time_left_seconds": 60}, "Only 1 more save fits."))
    assert (text.title, text.paragraph, text.command) == (TITLES["at-risk"], "Only 1 more save fits.", None)


def test_a_flag_of_a_rule_that_is_no_more_refers_to_its_evidence():
    for unknown in (finding("a-former-rule", {"n": 1}), finding("at-risk", {"time_left_seconds": 60})):
        text = flag_texts.make_recorded_text(unknown)
        assert "cannot describe this flag" in text.statement
        assert "ckptd show JOB" in text.advice
    assert flag_texts.make_recorded_text(finding("a-former-rule", {})).title == "A former rule"


def test_what_users_name_stays_on_one_line():
    evidence = CASES["not resubmitted"].evidence | {"reason": "sbatch said:\nno"}
    assert flag_texts.make_text("not-resubmitted", evidence, user="alice").statement.endswith("it: sbatch said:\\nno.")


def test_instants_are_in_the_zone_of_the_reader():
    shown = finding("at-risk", CASES["at-risk, maintenance"].evidence)
    text = flag_texts.make_recorded_text(shown, timezone(timedelta(hours=2), "CEST"))
    assert "from 2026-03-01 17:45 CEST, before" in text.statement
    assert "from 2026-03-01 15:45 UTC, before" in flag_texts.make_recorded_text(replace(shown, user="bob")).statement
