import logging

from ckptd.acting import Acted
from ckptd.core.actions import Act, ActKind
from ckptd.service.acts import ActsTold
from core.histories import RUN, job


def act(kind):
    return Act(kind=kind, name="x", run=RUN, job=job(user="a\nb"))


def test_acts_are_counted_by_how_they_went():
    told = ActsTold()
    outcomes = ("done", "submitted job 7", "failed: no", "not needed: its own comes in time")
    told.note(Acted(tuple((act(ActKind.SIGNAL), outcome) for outcome in outcomes)))
    assert told.counts == {
        (ActKind.SIGNAL, "done"): 2,
        (ActKind.SIGNAL, "failed"): 1,
        (ActKind.SIGNAL, "not-needed"): 1,
    }


def test_that_acts_are_put_off_is_told_once_until_they_are_no_longer(caplog):
    told = ActsTold()
    waiting = Acted(put_off=(act(ActKind.HOLD), act(ActKind.HOLD)))
    with caplog.at_level(logging.WARNING):
        for step in (Acted(), waiting, waiting, Acted(), waiting):
            told.note(step)
    said = [record.getMessage() for record in caplog.records]
    first = "hold-job: put off for 2 jobs, of 'a\\nb': so much was done within the hour (actions.max_per_hour)"
    assert said == [first, "hold-job: no longer put off", first]
    assert told.put_off == {**dict.fromkeys(ActKind, 0), ActKind.HOLD: 2}
