"""Which attempt wrote a checkpoint that was found before a restart, as far as its times show."""

from dataclasses import replace

import pytest

from ckptd.core.model import CheckpointState
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job
from support.recorded import locate, poll, scan

JOB = make_job(1)


def run_located_job(store):
    poll(store, 0, JOB)
    locate(store, 1)


pytestmark = pytest.mark.filled_by(record=run_located_job)


def test_what_was_found_before_the_restart_stays_the_attempts_own_though_its_file_server_is_ahead(store):
    poll(store, 20, JOB)
    attempts = store.histories.read(CLUSTER, [RUN])[0].attempts
    scan(store, 20, make_checkpoint(written=140), attempts=attempts, looked=19)
    scan(store, 32, make_checkpoint(written=140), attempts=attempts, looked=31)
    poll(store, 33, replace(JOB, state=STATES.PENDING, restart_count=1, submitted_at=at(32)))
    poll(store, 34, replace(JOB, restart_count=1, submitted_at=at(32), started_at=at(33)))
    (record,) = store.checkpoints.read(RUN)
    assert record.attempt == (store.jobs.read_tracked(CLUSTER)[1].key, 0)


def test_what_was_found_unfinished_before_the_restart_is_the_work_of_the_attempt_that_saved_it_again(store):
    poll(store, 10, JOB)
    attempts = store.histories.read(CLUSTER, [RUN])[0].attempts
    scan(store, 10, make_checkpoint("last.pt", 10, state=CheckpointState.WRITING), attempts=attempts, looked=9)
    poll(store, 19, replace(JOB, state=STATES.PENDING, restart_count=1, submitted_at=at(19)))
    attempts = store.histories.read(CLUSTER, [RUN])[0].attempts
    scan(store, 19.9, make_checkpoint("last.pt", 19.8), attempts=attempts, looked=19.5)
    poll(store, 21, replace(JOB, restart_count=1, submitted_at=at(19), started_at=at(19.7)))
    (record,) = store.checkpoints.read(RUN)
    assert record.attempt == (store.jobs.read_tracked(CLUSTER)[1].key, 1)
