"""What accounting answers of the executions that the queue left open."""

from ckptd.core import queue
from ckptd.core.model import EndCause, Unknown
from ckptd.core.queue import accounting_merge
from support.queue_facts import STATES, at, follow, look, make_job, make_row

NO_ACCOUNTING = Unknown(what="accounting", reason="there is none")


def test_accounting_corrects_the_guessed_cause_of_a_requeue():
    waiting = make_job(1, STATES.PENDING, 1, submitted_at=at(4))
    changes, _ = follow(look(0, make_job(1)), look(5, waiting))
    assert changes.asks_accounting == {1}
    merged = accounting_merge.merge_accounting(changes, (make_row(1, -1, 3, STATES.NODE_FAIL),), at(5))
    assert [(attempt.cause, attempt.ended_at) for attempt in merged.ended] == [(EndCause.NODE_FAILURE, at(3))]
    assert merged.changed[0].attempt == merged.ended[0]


def test_a_job_that_gave_nodes_back_is_one_execution_that_ends_with_its_last_row():
    changes, _ = follow(look(0, make_job(1)), look(9, make_job(1, STATES.PENDING, 1, submitted_at=at(8))))
    rows = make_row(1, -1, 4, STATES.RESIZING), make_row(1, -1, 7, STATES.PREEMPTED, submitted=4)
    merged = accounting_merge.merge_accounting(changes, rows, at(9))
    assert [(each.cause, each.ended_at) for each in merged.ended] == [(EndCause.PREEMPTION, at(7))]


def test_restarts_missed_are_filled_in_from_accounting():
    now_running = make_job(1, STATES.RUNNING, 3, submitted_at=at(30), started_at=at(31))
    changes, _ = follow(look(0, make_job(1)), look(35, now_running))
    (missed,) = changes.missed
    assert (missed.first, missed.last) == (1, 2)
    rows = (
        make_row(1, -1, 9, STATES.REQUEUED, -2),
        make_row(1, 10, 19, STATES.NODE_FAIL, 9),
        make_row(1, 20, 30, STATES.PREEMPTED, 19),
    )
    merged = accounting_merge.merge_accounting(changes, rows, at(35))
    found = {attempt.restart_count: (attempt.cause, attempt.ended_at) for attempt in merged.ended}
    assert found == {
        0: (EndCause.REQUEUE, at(9)),
        1: (EndCause.NODE_FAILURE, at(19)),
        2: (EndCause.PREEMPTION, at(30)),
    }
    assert sorted(attempt.restart_count for attempt in merged.begun) == [1, 2, 3]
    assert merged.changed[0].attempt.restart_count == 3


def test_restarts_missed_that_accounting_knows_in_part_are_the_latest_ones():
    now_running = make_job(1, STATES.RUNNING, 3, submitted_at=at(30), started_at=at(31))
    changes, _ = follow(look(35, now_running))
    merged = accounting_merge.merge_accounting(changes, (make_row(1, 20, 30, STATES.REQUEUED, 19),), at(35))
    assert [attempt.restart_count for attempt in merged.begun if attempt.ended_at] == [2]


def test_restarts_missed_that_nobody_knows_are_only_counted():
    now_running = make_job(1, STATES.RUNNING, 3, submitted_at=at(30), started_at=at(31))
    changes, tracked = follow(look(0, make_job(1)), look(35, now_running))
    merged = accounting_merge.merge_accounting(changes, NO_ACCOUNTING, at(35))
    assert [attempt.restart_count for attempt in merged.begun] == [3]
    assert tracked[1].job.restart_count == 3


def test_a_vanished_job_stays_open_until_it_is_settled():
    changes, tracked = follow(look(0, make_job(1), make_job(2)), look(5, make_job(2)))
    assert [known.key.job_id for known in changes.vanished] == [1]
    assert (changes.asks_accounting, changes.is_empty) == ({1}, True)
    assert tracked[1].is_open
    assert tracked[1].last_seen_at == at(0)


def test_a_vanished_job_ends_as_accounting_says():
    changes, tracked = follow(look(0, make_job(1), make_job(2)), look(5, make_job(2)))
    merged = accounting_merge.merge_accounting(changes, (make_row(1, -1, 2, STATES.TIMEOUT),), at(5))
    assert [(attempt.cause, attempt.ended_at) for attempt in merged.ended] == [(EndCause.TIME_LIMIT, at(2))]
    assert queue.apply(tracked, merged)[1].job.state is STATES.TIMEOUT


def test_a_vanished_job_that_nobody_knows_ended_for_an_unknown_cause_when_last_seen():
    changes, tracked = follow(
        look(0, make_job(1), make_job(2)), look(3, make_job(1), make_job(2)), look(9, make_job(2))
    )
    merged = accounting_merge.merge_accounting(changes, NO_ACCOUNTING, at(9))
    assert [(attempt.cause, attempt.ended_at) for attempt in merged.ended] == [(EndCause.UNKNOWN, at(3))]
    assert [known.key.job_id for known in merged.jobs_ended] == [1]
    assert not queue.apply(tracked, merged)[1].is_open


def test_a_job_whose_end_nobody_knew_may_come_back_as_the_same_attempt():
    changes, tracked = follow(look(0, make_job(1), make_job(2)), look(5, make_job(2)))
    tracked = queue.apply(tracked, accounting_merge.merge_accounting(changes, NO_ACCOUNTING, at(5)))
    changes, tracked = follow(look(6, make_job(1), make_job(2)), tracked=tracked)
    assert (changes.new, changes.begun) == ((), ())
    assert [(attempt.restart_count, attempt.ended_at) for attempt in changes.updated] == [(0, None)]
    assert tracked[1].is_open


def test_an_end_from_accounting_is_believed_though_the_clock_of_this_host_is_behind():
    began = make_job(1, started_at=at(30), submitted_at=at(29))
    changes, _ = follow(look(0, began), look(5, make_job(1, STATES.PENDING, 1, submitted_at=at(45))))
    merged = accounting_merge.merge_accounting(changes, (make_row(1, 30, 45, STATES.NODE_FAIL, 29),), at(5))
    assert [(attempt.cause, attempt.ended_at) for attempt in merged.ended] == [(EndCause.NODE_FAILURE, at(45))]
