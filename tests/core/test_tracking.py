from dataclasses import replace

import pytest

from ckptd.core import queue
from ckptd.core.model import ENDED_STATES, EndCause, RestartKind
from support.queue_facts import MINUTE, STATES, at, follow, look, make_job


def test_a_job_waiting_for_its_first_start_is_only_counted():
    changes, tracked = follow(look(0, make_job(1, STATES.PENDING, task_count=9), make_job(2, STATES.CONFIGURING)))
    assert (changes.pending_count, tracked, changes.is_empty) == (10, {}, True)


def test_a_job_that_runs_is_new_with_its_first_attempt():
    changes, tracked = follow(look(0, make_job(1)))
    (attempt,) = changes.begun
    assert (attempt.restart_count, attempt.kind, attempt.started_at, attempt.ended_at) == (0, None, at(-1), None)
    assert tracked[1].attempt == attempt
    assert not tracked[1].run.is_located


def test_time_passing_changes_nothing_and_is_remembered():
    running = make_job(1)
    changes, tracked = follow(look(0, running), look(1, replace(running, time_left=running.time_left / 2)))
    assert changes.is_empty
    assert tracked[1].last_seen_at == at(1)


def test_predictions_for_a_job_that_waits_again_change_nothing():
    first = make_job(1, STATES.PENDING, 1, started_at=at(30), ends_at=at(90), time_left=None)
    changes, _ = follow(look(0, first), look(1, replace(first, started_at=at(45), ends_at=at(105))))
    assert changes.is_empty


def test_a_longer_limit_changes_the_job_and_its_attempt():
    changes, _ = follow(look(0, make_job(1)), look(1, make_job(1, time_limit=None, ends_at=None)))
    assert [known.job.time_limit for known in changes.changed] == [None]
    assert [attempt.time_limit for attempt in changes.updated] == [None]


def test_a_raised_count_while_completing_leaves_the_old_attempt_open():
    changes, tracked = follow(look(0, make_job(1)), look(1, make_job(1, STATES.COMPLETING, 1)))
    assert (changes.begun, changes.ended) == ((), ())
    assert tracked[1].attempt.ended_at is None


def test_a_requeue_ends_the_attempt_when_slurm_submitted_it_anew():
    waiting = make_job(1, STATES.PENDING, 1, submitted_at=at(4), started_at=at(9))
    changes, _ = follow(look(0, make_job(1)), look(3, make_job(1, STATES.COMPLETING, 1)), look(5, waiting))
    (ended,) = changes.ended
    assert (ended.restart_count, ended.cause, ended.ended_at) == (0, EndCause.REQUEUE, at(4))
    assert changes.begun == ()


def test_the_next_attempt_begins_when_the_job_runs_again():
    waiting = make_job(1, STATES.PENDING, 1, submitted_at=at(4))
    again = make_job(1, STATES.RUNNING, 1, submitted_at=at(4), started_at=at(6))
    changes, _ = follow(look(0, make_job(1)), look(5, waiting), look(7, again))
    (begun,) = changes.begun
    assert (begun.restart_count, begun.kind, begun.started_at) == (1, RestartKind.REQUEUE, at(6))
    assert changes.missed == ()


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("NodeDown", EndCause.NODE_FAILURE),
        ("Preempted", EndCause.PREEMPTION),
        ("BeginTime", EndCause.REQUEUE),
    ],
)
def test_a_requeue_names_its_cause_as_far_as_the_queue_tells(reason, cause):
    waiting = make_job(1, STATES.PENDING, 1, submitted_at=at(4), reason=reason)
    changes, _ = follow(look(0, make_job(1)), look(5, waiting))
    assert [attempt.cause for attempt in changes.ended] == [cause]


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (STATES.COMPLETED, EndCause.COMPLETED),
        (STATES.TIMEOUT, EndCause.TIME_LIMIT),
        (STATES.CANCELLED, EndCause.CANCEL),
        (STATES.OUT_OF_MEMORY, EndCause.FAILURE),
        (STATES.NODE_FAIL, EndCause.NODE_FAILURE),
        (STATES.PREEMPTED, EndCause.PREEMPTION),
    ],
)
def test_an_end_in_the_queue_ends_attempt_and_job_with_its_cause(state, cause):
    changes, tracked = follow(look(0, make_job(1)), look(5, make_job(1, state, ends_at=at(3))))
    assert [(attempt.cause, attempt.ended_at) for attempt in changes.ended] == [(cause, at(3))]
    assert [known.key.job_id for known in changes.jobs_ended] == [1]
    assert not tracked[1].is_open


def test_every_state_that_ends_a_job_has_a_cause():
    assert set(queue.CAUSES) >= ENDED_STATES


def test_an_ended_job_is_forgotten_once_the_queue_drops_it():
    ended = make_job(1, STATES.COMPLETED, ends_at=at(3))
    changes, tracked = follow(look(0, make_job(1)), look(5, ended), look(6, ended), look(7))
    assert [key.job_id for key in changes.forgotten] == [1]
    assert (tracked, changes.jobs_ended, changes.ended) == ({}, (), ())


def test_a_job_cancelled_while_it_waited_is_not_recorded():
    cancelled = make_job(1, STATES.CANCELLED, node_list="", started_at=at(0), ends_at=at(0))
    changes, tracked = follow(look(1, cancelled))
    assert (changes.is_empty, tracked) == (True, {})


def test_a_job_cancelled_while_it_waited_again_has_no_attempt_for_that():
    waiting = make_job(1, STATES.PENDING, 1, submitted_at=at(4))
    cancelled = make_job(1, STATES.CANCELLED, 1, submitted_at=at(4), node_list="", started_at=at(6), ends_at=at(6))
    changes, tracked = follow(look(0, make_job(1)), look(5, waiting), look(7, cancelled))
    assert (changes.begun, changes.ended) == ((), ())
    assert not tracked[1].is_open


def test_a_suspended_job_continues_its_attempt():
    stopped = make_job(1, STATES.SUSPENDED)
    changes, _ = follow(look(0, make_job(1)), look(1, stopped), look(2, make_job(1, ends_at=at(60))))
    assert (changes.begun, changes.ended) == ((), ())
    assert changes.updated[0].ended_at is None


@pytest.mark.parametrize(
    "other",
    [
        make_job(1, uid=2000, user="bob", submitted_at=at(3), started_at=at(4)),
        make_job(1, submitted_at=at(3), started_at=at(4)),
        make_job(1, submitted_at=None, started_at=at(500)),
    ],
    ids=["another user", "submitted after the old one started", "a start long after"],
)
def test_an_id_that_now_means_another_job_ends_the_old_one(other):
    old = make_job(1, submitted_at=at(-2), restart_count=2)
    changes, tracked = follow(look(0, old), look(600, other))
    assert [(attempt.restart_count, attempt.cause) for attempt in changes.ended] == [(2, EndCause.UNKNOWN)]
    assert [known.key.first_seen_at for known in changes.new] == [at(600)]
    assert changes.asks_accounting == {1}
    assert tracked[1].attempt.restart_count == 0


def test_another_users_waiting_job_with_a_tracked_id_is_no_sign_of_life():
    changes, _ = follow(look(0, make_job(1)), look(5, make_job(1, STATES.PENDING, uid=2000, submitted_at=at(4))))
    assert [known.key.job_id for known in changes.vanished] == [1]


def test_a_state_that_this_program_does_not_know_ends_nothing():
    changes, tracked = follow(look(0, make_job(1)), look(5, make_job(1, STATES.UNKNOWN)))
    assert changes.ended == ()
    assert tracked[1].is_open


@pytest.mark.parametrize(
    ("running", "shown", "suspect"),
    [(0, 0, False), (1, 0, True), (3, 1, False), (4, 2, False), (4, 1, True), (8, 3, True)],
)
def test_many_jobs_gone_at_once_are_suspect(running, shown, suspect):
    _, tracked = follow(look(0, *(make_job(number) for number in range(1, running + 1))))
    again = look(1, *(make_job(number) for number in range(1, shown + 1)))
    assert queue.is_suspect(tracked, again) is suspect


def make_attempt(job_id, restart_count=0, array_job_id=None):
    _, tracked = follow(look(0, make_job(job_id, restart_count=restart_count, array_job_id=array_job_id)))
    return tracked[job_id].attempt


@pytest.mark.parametrize(
    ("earlier", "attempt", "kind"),
    [
        ((), make_attempt(1), None),
        ((), make_attempt(1, 2), RestartKind.REQUEUE),
        ((make_attempt(1),), make_attempt(1, 1), RestartKind.REQUEUE),
        ((make_attempt(19, array_job_id=18),), make_attempt(20, array_job_id=18), RestartKind.ARRAY),
        ((make_attempt(19, array_job_id=18),), make_attempt(31, array_job_id=30), RestartKind.RESUBMIT),
        ((make_attempt(1),), make_attempt(2), RestartKind.RESUBMIT),
    ],
)
def test_the_kind_of_a_restart(earlier, attempt, kind):
    assert queue.assign_kind(earlier, attempt) is kind


def test_of_thousands_of_attempts_none_is_compared_with_all_before_it():
    class Name(int):
        compared = 0

        def __eq__(self, other):
            Name.compared += 1
            return int(self) == int(other)

        __hash__ = int.__hash__

    origins = queue.RestartClassifier()
    kinds = [origins.assign(Name(number % 4000), 0, None) for number in range(5000)]
    assert kinds[0] is None
    assert kinds[1:] == [RestartKind.RESUBMIT] * 3999 + [RestartKind.REQUEUE] * 1000
    assert Name.compared < 20_000


def test_a_requeued_execution_that_completes_is_not_taken_for_the_next_one():
    completing = make_job(1, STATES.COMPLETING, 1, started_at=at(4), ends_at=at(64))
    changes, tracked = follow(look(0, make_job(1)), look(5, completing))
    assert (changes.begun, changes.ended) == ((), ())
    assert (tracked[1].attempt.restart_count, tracked[1].attempt.started_at) == (0, at(-1))
    waiting = make_job(1, STATES.PENDING, 1, submitted_at=at(4), started_at=at(9))
    changes, _ = follow(look(6, waiting), tracked=tracked)
    assert [(each.restart_count, each.ended_at) for each in changes.ended] == [(0, at(4))]


def test_an_execution_after_a_requeue_that_is_first_seen_completing_is_told():
    completing = make_job(1, STATES.COMPLETING, 1, submitted_at=at(2), started_at=at(3), ends_at=at(4))
    changes, _ = follow(look(0, make_job(1)), look(5, completing))
    assert [(each.restart_count, each.started_at) for each in changes.begun] == [(1, at(3))]


@pytest.mark.parametrize("state", [STATES.COMPLETED, STATES.FAILED, STATES.NODE_FAIL, STATES.PREEMPTED, STATES.TIMEOUT])
def test_an_end_in_the_queue_is_believed_though_the_clock_of_this_host_is_behind(state):
    limit = MINUTE * (126 if state is STATES.TIMEOUT else 200)
    ended = make_job(1, state, time_limit=limit, ends_at=at(125))
    changes, tracked = follow(look(0, make_job(1)), look(5, ended))
    assert [attempt.ended_at for attempt in changes.ended] == [at(125)]
    assert tracked[1].ended_at == at(125)


@pytest.mark.parametrize("state", [STATES.COMPLETED, STATES.NODE_FAIL, STATES.PREEMPTED, STATES.CANCELLED])
@pytest.mark.parametrize("limit", [MINUTE * 126, MINUTE * 100, None])  # the end is at it, beyond it, or it is unknown
def test_a_planned_end_is_cut_to_the_time_of_the_poll(state, limit):
    ended = make_job(1, state, time_limit=limit, ends_at=at(125))
    changes, tracked = follow(look(0, make_job(1)), look(5, ended))
    assert [attempt.ended_at for attempt in changes.ended] == [at(5)]
    assert tracked[1].ended_at == at(5)


def test_an_end_further_ahead_than_a_clock_may_be_wrong_is_cut_to_the_time_of_the_poll():
    ended = make_job(1, STATES.FAILED, time_limit=MINUTE * 1000, ends_at=at(5 + 181))
    changes, _ = follow(look(0, make_job(1)), look(5, ended))
    assert [attempt.ended_at for attempt in changes.ended] == [at(5)]


@pytest.mark.parametrize(("submitted", "ended"), [(125, 125), (5 + 181, 5)])
def test_the_time_of_a_requeue_is_believed_though_the_clock_of_this_host_is_behind(submitted, ended):
    waiting = make_job(1, STATES.PENDING, 1, submitted_at=at(submitted), started_at=None, ends_at=None)
    changes, _ = follow(look(0, make_job(1)), look(5, waiting))
    assert [attempt.ended_at for attempt in changes.ended] == [at(ended)]
