import logging

from ckptd.core.job_actions.action_policy import Act, ActKind, PutOff
from ckptd.steps.job_action_log import Acted, ActsTold
from core.histories import RUN, job


def act(kind):
    return Act(kind=kind, name="x", run=RUN, job=job(user="a\nb"))


def test_acts_are_counted_by_how_they_went():
    told = ActsTold()
    outcomes = ("done", "submitted job 7", "failed: no", "not needed: its own comes in time")
    told.note(Acted(tuple((act(ActKind.SIGNAL), outcome) for outcome in outcomes)))
    assert {key: count for key, count in told.counts.items() if count} == {
        (ActKind.SIGNAL, "done"): 2,
        (ActKind.SIGNAL, "failed"): 1,
        (ActKind.SIGNAL, "not-needed"): 1,
    }
    assert len(told.counts) == 3 * len(ActKind)  # so that the first of each is seen as a rise


def test_that_acts_are_put_off_is_told_once_until_they_are_no_longer():
    told = ActsTold()
    waiting = Acted(put_off=(act(ActKind.HOLD), act(ActKind.HOLD)))
    silent = Acted(put_off=(act(ActKind.HOLD),), waits_for=PutOff.SLURM)
    said = [line for step in (Acted(), waiting, waiting, Acted(), silent) for line in told.note(step)]
    assert {line.level for line in said} == {logging.WARNING}
    assert [line.text for line in said] == [
        "hold-job deferred: 2 jobs of 'a\\nb': actions.max_per_hour is reached",
        "hold-job no longer deferred",
        "hold-job deferred: 1 job of 'a\\nb': Slurm does not answer",
    ]
    assert {key: count for key, count in told.put_off.items() if count} == {(ActKind.HOLD, PutOff.SLURM): 1}
    assert len(told.put_off) == len(ActKind) * len(PutOff)
