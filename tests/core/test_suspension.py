import itertools
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core import queue
from ckptd.core.model import EndCause, JobState, Suspension
from ckptd.core.queue import accounting_merge
from ckptd.core.runs import lost_work, suspension
from ckptd.core.runs.lost_work import SavedWork
from support.queue_facts import MINUTE, at, follow, look, make_job, make_row

STATES = JobState


def suspended(ran, **changes):
    """A job that ran so many minutes of its hour, from one minute before noon on, and is suspended."""
    return make_job(1, STATES.SUSPENDED, time_left=(60 - ran) * MINUTE, **changes)


def resumed(took):
    """The same job running again: Slurm moves its expected end on."""
    return make_job(1, ends_at=at(59 + took))


def pairs(attempt):
    return [(each.began_at, each.ended_at) for each in attempt.suspensions]


def test_a_suspension_began_when_the_job_had_run_for_as_long_as_slurm_says():
    _, tracked = follow(look(0, make_job(1)), look(20, suspended(11)))
    assert pairs(tracked[1].attempt) == [(at(10), None)]
    _, tracked = follow(look(25, suspended(11)), tracked=tracked)
    assert pairs(tracked[1].attempt) == [(at(10), None)]


def test_it_ended_as_much_later_as_the_expected_end_has_moved():
    _, tracked = follow(look(0, make_job(1)), look(20, suspended(11)), look(32, resumed(20)))
    assert pairs(tracked[1].attempt) == [(at(10), at(30))]
    _, tracked = follow(look(40, suspended(16, ends_at=at(79))), look(50, resumed(25)), tracked=tracked)
    assert pairs(tracked[1].attempt) == [(at(10), at(30)), (at(35), at(40))]


def test_without_a_limit_the_looks_bound_it():
    free = {"time_limit": None, "time_left": None, "ends_at": None}
    jobs = make_job(1, **free), make_job(1, STATES.SUSPENDED, **free), make_job(1, **free)
    _, tracked = follow(*(look(minute, job) for minute, job in zip((0, 20, 32), jobs, strict=True)))
    assert pairs(tracked[1].attempt) == [(at(20), at(32))]


def test_one_that_nobody_saw_is_known_by_the_moved_end():
    _, tracked = follow(look(0, make_job(1)), look(30, resumed(12)))
    assert pairs(tracked[1].attempt) == [(at(18), at(30))]
    _, tracked = follow(look(0, make_job(1)), look(30, resumed(0.5)))
    assert pairs(tracked[1].attempt) == []


def test_a_job_cancelled_while_suspended_ended_when_it_was_suspended():
    cancelled = make_job(1, STATES.CANCELLED, ends_at=at(10))
    changes, _ = follow(look(0, make_job(1)), look(20, suspended(11)), look(25, cancelled))
    (ended,) = changes.ended
    assert (ended.ended_at, ended.suspensions) == (at(10), ())


def test_accounting_is_asked_for_how_long_a_job_was_suspended_and_believed():
    looks = look(0, make_job(1)), look(20, suspended(11)), look(32, resumed(20)), look(50, ended_job())
    changes, _ = follow(*looks)
    assert changes.asks_accounting == {1}
    row = make_row(1, -1, 50, STATES.FAILED)._replace(suspended=timedelta(minutes=19, seconds=57))
    (ended,) = accounting_merge.merge_accounting(changes, (row,), at(50)).ended
    assert suspension.total(ended.suspensions, at(50)) == row.suspended
    assert lost_work.measure_loss(ended, []).lost == 51 * MINUTE - row.suspended


def test_what_only_slurmctld_remembers_of_an_end_tells_nothing_of_suspensions():
    looks = look(0, make_job(1)), look(20, suspended(11)), look(32, resumed(20)), look(50, ended_job())
    (ended,) = accounting_merge.merge_accounting(follow(*looks)[0], (make_row(1, -1, 50, STATES.FAILED),), at(50)).ended
    assert pairs(ended) == [(at(10), at(30))]


def ended_job():
    return make_job(1, STATES.FAILED, ends_at=at(50))


def test_an_execution_that_accounting_alone_tells_was_suspended_too():
    running = make_job(1, restart_count=1, started_at=at(40), ends_at=at(100))
    changes, _ = follow(look(50, running))
    row = make_row(1, 0, 30, STATES.REQUEUED)._replace(suspended=10 * MINUTE)
    (unseen,) = accounting_merge.merge_accounting(changes, (row,), at(50)).ended
    assert (unseen.cause, pairs(unseen)) == (EndCause.REQUEUE, [(at(20), at(30))])


@pytest.mark.parametrize(
    ("saved", "lost"),
    [
        pytest.param(None, 31, id="nothing saved"),
        pytest.param(5, 25, id="saved before"),
        pytest.param(35, 15, id="saved after"),
        pytest.param(15, 20, id="saved in the midst, by processes that Slurm did not stop"),
    ],
)
def test_only_what_lies_between_the_save_and_the_end_is_taken_off(saved, lost):
    _, tracked = follow(look(0, make_job(1)), look(20, suspended(11)), look(32, resumed(20)), look(50, ended_job()))
    saves = [] if saved is None else [SavedWork(at(saved))]
    assert lost_work.measure_loss(tracked[1].attempt, saves).lost == lost * MINUTE


def test_an_attempt_that_is_seen_suspended_first_is_one():
    changes, _ = follow(look(20, suspended(11)))
    assert pairs(changes.begun[0]) == [(at(10), None)]


def test_the_requeue_of_a_suspended_job_closes_it():
    waiting = make_job(1, STATES.PENDING, 1, submitted_at=at(24), started_at=None)
    changes, _ = follow(look(0, make_job(1)), look(20, suspended(11)), look(25, waiting))
    assert pairs(changes.ended[0]) == [(at(10), at(24))]
    assert queue.is_guessed(changes.ended[0])


@given(
    st.lists(st.tuples(st.integers(-20, 80), st.integers(0, 30))),
    st.integers(0, 120),
)
def test_fitted_suspensions_have_the_sum_asked_for_and_never_overlap(given_pairs, wanted):
    ordered, last = [], -20
    for began, length in sorted(given_pairs):
        start = max(began, last)
        ordered.append(Suspension(at(start), at(start + length)))
        last = start + length
    found = suspension.fit(ordered, at(0), at(60), wanted * MINUTE)
    assert suspension.total(found, at(60)) == min(wanted, 60) * MINUTE == suspension.within(found, at(0), at(60))
    assert all(one.ended_at <= other.began_at for one, other in itertools.pairwise(found))


def test_those_of_a_gang_are_joined_and_keep_their_sum():
    attempt = replace(follow(look(0, make_job(1)))[1][1].attempt, time_limit=None)
    for minute in range(1, 601, 2):
        attempt = suspension.update(attempt, make_job(1, STATES.SUSPENDED, time_limit=None), at(minute))
        attempt = suspension.update(attempt, make_job(1, time_limit=None), at(minute + 1))
    assert len(attempt.suspensions) == suspension.MAX_KEPT
    assert suspension.total(attempt.suspensions, at(601)) == 300 * MINUTE
