"""A cycle asks accounting again about ends that it could only guess, and the record follows the answer."""

from datetime import timedelta

import pytest

from ckptd.core.model import EndCause, PastJobs, Unknown
from ckptd.core.model.records import LocationRecord, ScanRecord
from ckptd.core.runs.lost_work_totals import LossKey
from ckptd.core.runs.progress import NO_CHANGES
from ckptd.steps import poll, publish
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.state import begin
from support.migrated import open_record
from support.parts import make_parts
from support.queue_facts import CLUSTER, STATES, at, look, make_job, make_row, make_scan
from support.whole_answers import WholeAnswers

DOWN = Unknown(what="accounting", reason="slurmdbd does not answer")


class Cluster:
    """A queue and an accounting that tests set."""

    name = "fake"

    def __init__(self):
        self.jobs = ()
        self.ended = ()
        self.asked = []

    def read_queue(self, now):
        return look((now - at(0)) / timedelta(minutes=1), *self.jobs)

    def read_past(self, since, until):
        return PastJobs((), until)

    def read_ended(self, job_ids, since):
        self.asked.append(set(job_ids))
        return self.ended

    def read_batch_script(self, job, *, is_urgent=False):
        return Unknown(what="batch script", reason="not asked")

    def is_answering(self):
        return True


class NoAgent(WholeAnswers):
    def run(self, batches):
        return [[Unknown(what="directory", reason="nobody looks")] * len(batch.items) for batch in batches]


@pytest.fixture
def parts(tmp_path):
    store = open_record(f"sqlite:///{tmp_path}/record.db")
    yield make_parts(CLUSTER, Cluster(), store, NoAgent())
    store.close()


def see(parts, state, minutes, *jobs):
    parts.source.jobs = jobs
    snapshot, ended = poll.observe_queue(parts, state, at(minutes))
    poll.record_queue(parts, state, snapshot, ended, at(minutes))


def locate(parts, state, minutes):
    """Record where job 1 saves: of jobs of which nobody knows that, no loss is claimed."""
    known = state.latest(PolledQueue).tracked[1]
    run = known.run._replace(directory="/scratch/alice/saves")
    found = LocationRecord(jobs=(known.key,), run=run, user=known.job.user, located_by="comment")
    parts.store.located_runs.record([found], at(minutes))
    state.change(PolledQueue, lambda queued: queued.with_runs({known.key: run}))


def causes(parts):
    """Why the attempts of job 1 ended, oldest first."""
    found = [each for history in parts.store.histories.read(CLUSTER) for each in history.attempts]
    return [each.cause for each in found if each.job.job_id == 1]


OTHERS = [make_job(number) for number in (2, 3, 4)]  # so that one that is gone is no reason to doubt the queue


def test_a_preemption_is_told_once_slurmdbd_has_heard_of_it(parts):
    state = begin(parts, at(0))
    see(parts, state, 0, make_job(1, partition="low"), *OTHERS)
    locate(parts, state, 1)
    waiting = make_job(1, STATES.PENDING, 1, submitted_at=at(4), partition="low")
    see(parts, state, 5, waiting, *OTHERS)
    assert causes(parts)[0] is EndCause.REQUEUE
    parts.source.ended = (make_row(1, -1, 4, STATES.PREEMPTED),)
    see(parts, state, 6, waiting, *OTHERS)
    assert causes(parts)[0] is EndCause.PREEMPTION
    assert state.latest(PolledQueue).tracked[1].attempt.cause is EndCause.PREEMPTION
    asked = len(parts.source.asked)
    see(parts, state, 60, waiting, *OTHERS)
    assert len(parts.source.asked) == asked
    report = publish.report(parts, state, at(120))
    assert report.losses[LossKey(EndCause.PREEMPTION, "low")].seconds == 5 * 60


def requeue(parts, state):
    """Let job 1 run from minute -1 to 4, when the queue shows a requeue, and its directory be read after that."""
    see(parts, state, 0, make_job(1, partition="low"), *OTHERS)
    locate(parts, state, 1)
    waiting = make_job(1, STATES.PENDING, 1, submitted_at=at(4), partition="low")
    see(parts, state, 5, waiting, *OTHERS)
    run = state.latest(PolledQueue).tracked[1].run
    parts.store.checkpoints.record_scans([ScanRecord(run=run, scan=make_scan(6), changes=NO_CHANGES)])
    return waiting


def seconds_by_cause(parts, state, minutes):
    """The lost seconds of each cause that metrics show."""
    totals = publish.report(parts, state, at(minutes)).losses
    return {key.cause: total.seconds for key, total in totals.items() if total.attempt_count}


def test_a_requeue_counts_once_accounting_has_confirmed_it(parts):
    state = begin(parts, at(0))
    waiting = requeue(parts, state)
    assert seconds_by_cause(parts, state, 7) == {}
    parts.source.ended = (make_row(1, -1, 4, STATES.REQUEUED),)
    see(parts, state, 8, waiting, *OTHERS)
    for minutes in (9, 30, 70, 3000):
        assert seconds_by_cause(parts, state, minutes) == {EndCause.REQUEUE: 5 * 60}


def test_a_requeue_that_was_a_preemption_counts_as_one_only(parts):
    state = begin(parts, at(0))
    waiting = requeue(parts, state)
    assert seconds_by_cause(parts, state, 7) == {}
    parts.source.ended = (make_row(1, -1, 4, STATES.PREEMPTED),)
    see(parts, state, 8, waiting, *OTHERS)
    for minutes in (9, 70):
        assert seconds_by_cause(parts, state, minutes) == {EndCause.PREEMPTION: 5 * 60}


def test_without_accounting_a_requeue_counts_after_an_hour(parts):
    state = begin(parts, at(0))
    parts.source.ended = DOWN
    waiting = requeue(parts, state)
    see(parts, state, 20, waiting, *OTHERS)
    assert seconds_by_cause(parts, state, 63) == {}
    assert seconds_by_cause(parts, state, 65) == {EndCause.REQUEUE: 5 * 60}


def test_a_daemon_that_starts_anew_counts_a_requeue_only_when_it_is_confirmed_again(parts):
    waiting = requeue(parts, begin(parts, at(0)))
    state = begin(parts, at(7))
    assert seconds_by_cause(parts, state, 8) == {}
    parts.source.ended = (make_row(1, -1, 4, STATES.REQUEUED),)
    see(parts, state, 9, waiting, *OTHERS)
    assert seconds_by_cause(parts, state, 10) == {EndCause.REQUEUE: 5 * 60}


def test_a_daemon_that_starts_anew_asks_again_what_the_one_before_did_not_learn(parts):
    state = begin(parts, at(0))
    see(parts, state, 0, make_job(1), *OTHERS)
    parts.source.ended = DOWN
    see(parts, state, 5, *OTHERS)
    assert causes(parts)[0] is EndCause.UNKNOWN
    parts.source.ended = (make_row(1, -1, 3, STATES.TIMEOUT),)
    state = begin(parts, at(6))
    see(parts, state, 7, *OTHERS)
    assert causes(parts)[0] is EndCause.TIME_LIMIT


def test_totals_never_fall_while_a_daemon_runs(parts):
    state = begin(parts, at(0))
    see(parts, state, 0, make_job(1), *OTHERS)
    locate(parts, state, 1)
    see(parts, state, 5, *OTHERS)
    unknown = LossKey(EndCause.UNKNOWN, "")
    assert publish.report(parts, state, at(120)).losses[unknown].seconds == 60
    parts.source.ended = (make_row(1, -1, 3, STATES.TIMEOUT),)
    see(parts, state, 121, *OTHERS)
    losses = publish.report(parts, state, at(125)).losses
    assert losses[unknown].seconds == 60
    assert losses[LossKey(EndCause.TIME_LIMIT, "")].seconds == 4 * 60
