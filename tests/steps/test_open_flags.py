"""The open flags in memory follow the database, and take no more memory for being read again."""

from dataclasses import replace

from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Finding, Flag, Severity
from ckptd.steps.open_flags import OpenFlags
from support.queue_facts import RUN, at

FINDING = Finding(rule="at-risk", severity=Severity.WARNING, run=RUN, job_id=1, user="alice", evidence={"n": 1})


def make_flags():
    """Make equal flags, new objects at each call, as a database does."""
    return [Flag(flag_id=number, finding=replace(FINDING, job_id=number), opened_at=at(1)) for number in (1, 2)]


def test_flags_that_are_read_again_are_the_same_objects_unless_they_changed():
    first = OpenFlags(make_flags())
    one, two = make_flags()
    again = first.read_again([one, replace(two, worsened_at=at(2))])
    assert [now is before for now, before in zip(again.all, first.all, strict=True)] == [True, False]
    assert again.all[1].worsened_at == at(2)
    assert again.of_run(FINDING.run) == again.all


def test_a_flag_that_another_process_resolved_is_gone_and_one_that_it_opened_is_there():
    first = OpenFlags(make_flags())
    one, two = make_flags()
    again = first.read_again([two, replace(one, flag_id=3)])
    assert [flag.flag_id for flag in again.all] == [2, 3]
    again.record(FlagChanges(resolved=(two,)), ())
    assert [flag.flag_id for flag in again.of_run(FINDING.run)] == [3]
