import logging

from ckptd.core.job_actions.action_policy import ActionKind, DeferReason, JobAction
from ckptd.steps.job_action_log import ActResults, JobActionLog
from core.histories import RUN, job


def act(kind):
    return JobAction(kind=kind, name="x", run=RUN, job=job(user="a\nb"))


def test_acts_are_counted_by_how_they_went():
    told = JobActionLog()
    outcomes = ("done", "submitted job 7", "failed: no", "not needed: its own comes in time")
    told.record(ActResults(tuple((act(ActionKind.SIGNAL), outcome) for outcome in outcomes)))
    assert {key: count for key, count in told.counts.items() if count} == {
        (ActionKind.SIGNAL, "done"): 2,
        (ActionKind.SIGNAL, "failed"): 1,
        (ActionKind.SIGNAL, "not-needed"): 1,
    }
    assert len(told.counts) == 3 * len(ActionKind)  # so that the first of each is seen as a rise


def test_that_acts_are_put_off_is_told_once_until_they_are_no_longer():
    told = JobActionLog()
    waiting = ActResults(deferred=(act(ActionKind.HOLD), act(ActionKind.HOLD)))
    silent = ActResults(deferred=(act(ActionKind.HOLD),), waits_for=DeferReason.SLURM)
    said = [line for step in (ActResults(), waiting, waiting, ActResults(), silent) for line in told.record(step)]
    assert {line.level for line in said} == {logging.WARNING}
    assert [line.text for line in said] == [
        "hold-job deferred: 2 jobs of 'a\\nb': actions.max_per_hour is reached",
        "hold-job no longer deferred",
        "hold-job deferred: 1 job of 'a\\nb': Slurm does not answer",
    ]
    assert {key: count for key, count in told.deferred.items() if count} == {(ActionKind.HOLD, DeferReason.SLURM): 1}
    assert len(told.deferred) == len(ActionKind) * len(DeferReason)
