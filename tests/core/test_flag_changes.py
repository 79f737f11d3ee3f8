import inspect
from dataclasses import replace

import pytest

from ckptd.core import health
from ckptd.core.health import Evaluation, flag_changes
from ckptd.core.health.ending import OF_THE_RUN
from ckptd.core.model import Finding, Flag, Severity
from core.histories import RUN, at

FINDING = Finding(
    rule="at-risk",
    severity=Severity.WARNING,
    run=RUN,
    job_id=1,
    user="alice",
    evidence={"n": 1},
)
FLAG = Flag(flag_id=7, finding=FINDING, opened_at=at(0))


def test_what_newly_holds_opens():
    changes = flag_changes.compare([], [Evaluation(run=RUN, findings=(FINDING,))], at(5))
    assert changes.opened == (Flag(finding=FINDING, opened_at=at(5)),)


def test_what_holds_on_changes_nothing():
    assert not flag_changes.compare([FLAG], [Evaluation(run=RUN, findings=(FINDING,))], at(5))


def test_what_becomes_worse_worsens_once_and_does_not_become_better_again():
    worse = replace(FINDING, severity=Severity.CRITICAL)
    changes = flag_changes.compare([FLAG], [Evaluation(run=RUN, findings=(worse,))], at(5))
    assert changes.worsened == (replace(FLAG, finding=worse, worsened_at=at(5)),)
    assert not flag_changes.compare(changes.worsened, [Evaluation(run=RUN, findings=(FINDING,))], at(6))


def test_new_numbers_are_kept_without_an_edge():
    changed = replace(FINDING, evidence={"n": 2})
    changes = flag_changes.compare([FLAG], [Evaluation(run=RUN, findings=(changed,))], at(5))
    assert changes.updated == (replace(FLAG, finding=changed),)
    assert (changes.opened, changes.worsened, changes.resolved) == ((), (), ())


def test_an_open_flag_of_an_earlier_version_gets_its_text_from_its_new_evidence_without_an_edge():
    earlier = replace(FLAG, finding=replace(FINDING, recorded_advice="Save sooner."))
    changes = flag_changes.compare([earlier], [Evaluation(run=RUN, findings=(FINDING,))], at(5))
    assert changes.updated == (FLAG,)
    assert (changes.opened, changes.worsened, changes.resolved) == ((), (), ())


def test_what_no_longer_holds_resolves():
    assert flag_changes.compare([FLAG], [Evaluation(run=RUN)], at(5)).resolved == (replace(FLAG, resolved_at=at(5)),)


def test_an_undecided_rule_and_a_run_that_was_not_judged_resolve_nothing():
    assert not flag_changes.compare([FLAG], [Evaluation(run=RUN, undecided=frozenset({"at-risk"}))], at(5))
    assert not flag_changes.compare([FLAG], [], at(5))


def test_the_same_rule_for_another_job_is_another_flag():
    other = replace(FINDING, job_id=2)
    changes = flag_changes.compare([FLAG], [Evaluation(run=RUN, findings=(FINDING, other))], at(5))
    assert [flag.finding.job_id for flag in changes.opened] == [2]


@pytest.mark.parametrize(
    ("rule", "running_since", "is_marked"),
    [
        ("no-checkpoint-yet", -60, False),
        ("no-checkpoint-yet", 0, False),
        ("no-checkpoint-yet", None, True),  # its job waits to be run again, or has ended
        ("no-checkpoint-yet", 30, True),  # it runs again already
        ("at-risk", None, True),
        ("restarted-without-checkpoint", None, True),
        ("damaged-checkpoint", None, False),  # what is on disk is no attempt's
        ("damaged-checkpoint", 30, False),
        ("restart-loop", 30, False),
    ],
)
def test_a_flag_says_where_it_only_ended_with_its_attempt(rule, running_since, is_marked):
    flag = replace(FLAG, finding=replace(FINDING, rule=rule))
    changes = flag_changes.compare([flag], [Evaluation(run=RUN)], at(60))
    running = {} if running_since is None else {(RUN, 1): at(running_since)}
    (ended,) = flag_changes.mark_ended(changes, running).resolved
    assert ended.finding.evidence == ({"n": 1, "ended_with_attempt": True} if is_marked else {"n": 1})


def test_the_rules_that_outlive_an_attempt_are_those_that_hold_while_its_job_waits():
    asked = {
        rule: "facts.current_job(" in inspect.getsource(inspect.getmodule(kind)) for rule, kind in health.RULES.items()
    }
    assert {rule for rule, is_of_run in asked.items() if is_of_run} == OF_THE_RUN
