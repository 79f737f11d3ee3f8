from dataclasses import replace

from ckptd.core import alerts
from ckptd.core.health import Evaluation
from ckptd.core.model import Finding, Flag, Severity
from core.histories import RUN, at

FINDING = Finding(
    rule="at-risk", severity=Severity.WARNING, run=RUN, job_id=1, user="alice", evidence={"n": 1}, advice="save"
)
FLAG = Flag(flag_id=7, finding=FINDING, opened_at=at(0))


def test_what_newly_holds_opens():
    changes = alerts.compare([], [Evaluation(run=RUN, findings=(FINDING,))], at(5))
    assert changes.opened == (Flag(finding=FINDING, opened_at=at(5)),)


def test_what_holds_on_changes_nothing():
    assert not alerts.compare([FLAG], [Evaluation(run=RUN, findings=(FINDING,))], at(5))


def test_what_becomes_worse_worsens_once_and_does_not_become_better_again():
    worse = replace(FINDING, severity=Severity.CRITICAL)
    changes = alerts.compare([FLAG], [Evaluation(run=RUN, findings=(worse,))], at(5))
    assert changes.worsened == (replace(FLAG, finding=worse, worsened_at=at(5)),)
    assert not alerts.compare(changes.worsened, [Evaluation(run=RUN, findings=(FINDING,))], at(6))


def test_new_numbers_are_kept_without_an_edge():
    changed = replace(FINDING, evidence={"n": 2})
    changes = alerts.compare([FLAG], [Evaluation(run=RUN, findings=(changed,))], at(5))
    assert changes.updated == (replace(FLAG, finding=changed),)
    assert (changes.opened, changes.worsened, changes.resolved) == ((), (), ())


def test_what_no_longer_holds_resolves():
    assert alerts.compare([FLAG], [Evaluation(run=RUN)], at(5)).resolved == (replace(FLAG, resolved_at=at(5)),)


def test_an_undecided_rule_and_a_run_that_was_not_judged_resolve_nothing():
    assert not alerts.compare([FLAG], [Evaluation(run=RUN, undecided=frozenset({"at-risk"}))], at(5))
    assert not alerts.compare([FLAG], [], at(5))


def test_the_same_rule_for_another_job_is_another_flag():
    other = replace(FINDING, job_id=2)
    changes = alerts.compare([FLAG], [Evaluation(run=RUN, findings=(FINDING, other))], at(5))
    assert [flag.finding.job_id for flag in changes.opened] == [2]
