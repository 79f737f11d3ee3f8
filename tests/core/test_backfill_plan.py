from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.model import EndCause, JobKey, RestartKind
from ckptd.core.queue import backfill_plan
from ckptd.core.queue.backfill_plan import RecordedJob
from support.queue_facts import CLUSTER, MINUTE, STATES, at, follow, look, make_job, make_past


def on_record(*snapshots):
    """Return the jobs that these looks at the queue left on record, with every execution that they showed."""
    attempts = {}
    tracked = {}
    for each in snapshots:
        changes, tracked = follow(each, tracked=tracked)
        for attempt in (*changes.begun, *changes.updated, *changes.ended):
            attempts[attempt.job, attempt.restart_count] = attempt
    return {
        job_id: [RecordedJob(known, tuple(a for (key, _), a in sorted(attempts.items()) if key == known.key))]
        for job_id, known in tracked.items()
    }


def taken_up(plan, recorded=None):
    """Return what is on record once a plan was carried out."""
    result = {job_id: list(entries) for job_id, entries in (recorded or {}).items()}
    known = {each.key: each for entries in result.values() for each in (entry.known for entry in entries)}
    known |= {each.key: each for each in (*plan.changes.new, *plan.changes.changed)}
    attempts = {(a.job, a.restart_count): a for entries in result.values() for e in entries for a in e.attempts}
    attempts |= {(a.job, a.restart_count): a for a in plan.changes.begun}
    attempts |= {(a.job, a.restart_count): a for _, a in plan.corrected}
    found = {}
    for key, each in known.items():
        own = sorted((a for (job, _), a in attempts.items() if job == key), key=lambda a: a.started_at)
        found.setdefault(key.job_id, []).append(RecordedJob(each, tuple(own)))
    return found


def plan(past, recorded=None, until=60, now=61):
    return backfill_plan.plan(CLUSTER, past, recorded or {}, at(until), at(now))


def begun(result):
    return [(a.job.job_id, a.restart_count, a.cause, a.started_at, a.ended_at) for a in result.changes.begun]


def test_a_job_that_came_and_went_is_taken_up_with_what_it_was_and_is_not_in_the_queue():
    result = plan([make_past(1, 5, 20, STATES.TIMEOUT, array_job_id=1, array_task_id=0, gpu_count=4, cpu_count=8)])
    (known,) = result.changes.new
    (attempt,) = result.changes.ended
    assert result.changes.forgotten == (known.key,)
    assert (known.key, known.ended_at) == (JobKey(CLUSTER, 1, at(5)), at(20))
    assert not known.run.is_located
    assert (attempt.cause, attempt.kind, attempt.restart_count) == (EndCause.TIME_LIMIT, None, 0)
    assert (attempt.cpu_count, attempt.gpu_count, attempt.node_count, attempt.array_task_id) == (8, 4, 1, 0)
    assert (attempt.first_seen_at, result.touched) == (at(61), (known,))


def test_time_in_which_it_was_suspended_is_told():
    past = replace(make_past(1, 5, 20), suspended=2 * MINUTE)
    (attempt,) = plan([past]).changes.begun
    assert [each.ended_at - each.began_at for each in attempt.suspensions] == [2 * MINUTE]


def test_executions_that_follow_one_another_are_one_requeued_job():
    rows = [make_past(1, 5, 10, STATES.NODE_FAIL), make_past(1, 13, 20, STATES.REQUEUED, submitted=10)]
    rows.append(make_past(1, 25, 30, STATES.COMPLETED, submitted=20.5))
    result = plan(reversed(rows))
    assert begun(result) == [
        (1, 0, EndCause.NODE_FAILURE, at(5), at(10)),
        (1, 1, EndCause.REQUEUE, at(13), at(20)),
        (1, 2, EndCause.COMPLETED, at(25), at(30)),
    ]
    assert [each.kind for each in result.changes.begun] == [None, RestartKind.REQUEUE, RestartKind.REQUEUE]
    (known,) = result.changes.new
    assert (known.attempt, known.job.restart_count, known.ended_at) == (result.changes.begun[-1], 2, at(30))


def test_slurms_own_restart_counts_are_taken_where_it_tells_them():
    rows = [make_past(1, 5, 10, STATES.NODE_FAIL, restart_count=3), make_past(1, 13, 20, submitted=10, restart_count=5)]
    assert [a.restart_count for a in plan(rows).changes.begun] == [3, 5]


@pytest.mark.parametrize(
    "other",
    [
        {"uid": 2000},
        {"name": "another"},
        {"array_job_id": 1, "array_task_id": 3},
        {"submitted": 19},  # long after the first had ended
    ],
)
def test_a_number_that_was_given_again_means_two_jobs(other):
    rows = [make_past(1, 5, 10), make_past(1, 20, 30, **{"submitted": 10, **other})]
    result = plan(rows)
    assert [a.restart_count for a in result.changes.begun] == [0, 0]
    assert len({known.key for known in result.changes.new}) == 2


def test_the_number_of_a_job_that_now_runs_may_have_been_anothers():
    recorded = on_record(look(61, make_job(1, submitted_at=at(50), started_at=at(51))))
    result = plan([make_past(1, 5, 10), make_past(1, 12, 20, uid=2000)], recorded)
    assert [known.key.first_seen_at for known in result.changes.new] == [at(5), at(12)]
    assert set(result.changes.forgotten) == {known.key for known in result.changes.new}
    assert result.changes.changed == ()


def test_what_is_on_record_is_not_recorded_again():
    recorded = on_record(look(0, make_job(1)), look(30, make_job(1, STATES.FAILED, ends_at=at(20))))
    assert plan([make_past(1, -1, 20)], recorded).is_empty
    off = make_past(1, -1 + 4 / 60, 20)  # slurmctld and slurmdbd round
    assert plan([off], recorded).is_empty


def test_what_ended_after_the_look_that_closed_the_gap_is_left_to_the_queue():
    assert plan([make_past(1, 5, 60.5)]).is_empty


def test_a_job_on_record_that_was_requeued_and_ended_unseen_gets_what_is_missing():
    recorded = on_record(look(0, make_job(1)), look(30, make_job(1, STATES.NODE_FAIL, ends_at=at(20))))
    rows = [make_past(1, -1, 20, STATES.NODE_FAIL), make_past(1, 22, 30, submitted=20)]
    rows.append(make_past(1, 33, 50, STATES.TIMEOUT, submitted=30))
    result = plan(rows, recorded)
    assert begun(result) == [
        (1, 1, EndCause.FAILURE, at(22), at(30)),
        (1, 2, EndCause.TIME_LIMIT, at(33), at(50)),
    ]
    (known,) = result.changes.changed
    assert (known.key, known.ended_at, known.job.state) == (recorded[1][0].known.key, at(50), STATES.TIMEOUT)
    assert result.changes.new == ()


def test_executions_before_and_between_those_on_record_get_the_numbers_that_are_free():
    again = make_job(1, STATES.RUNNING, 3, submitted_at=at(45), started_at=at(46))
    recorded = on_record(look(0, make_job(1)), look(50, again))
    rows = [make_past(1, -1, 20, STATES.REQUEUED), make_past(1, 22, 30, STATES.REQUEUED, submitted=20)]
    rows.append(make_past(1, 33, 45, STATES.REQUEUED, submitted=30))
    result = plan(rows, recorded)
    assert [(a.restart_count, a.started_at) for a in result.changes.begun] == [(1, at(22)), (2, at(33))]
    assert (result.changes.changed, result.touched) == ((), ())  # the queue shows where the job stands


def test_where_fewer_numbers_are_free_the_latest_executions_get_them():
    again = make_job(1, STATES.RUNNING, 2, submitted_at=at(45), started_at=at(46))
    recorded = on_record(look(0, make_job(1)), look(50, again))
    rows = [make_past(1, -1, 20, STATES.REQUEUED), make_past(1, 22, 30, STATES.REQUEUED, submitted=20)]
    rows.append(make_past(1, 33, 45, STATES.REQUEUED, submitted=30))
    assert [(a.restart_count, a.started_at) for a in plan(rows, recorded).changes.begun] == [(1, at(33))]


def test_a_job_that_waits_to_run_again_gets_what_ran_before_it_was_first_seen():
    waiting = make_job(1, STATES.PENDING, 1, submitted_at=at(20), started_at=None, ends_at=None)
    recorded = on_record(look(60, waiting))
    result = plan([make_past(1, 5, 20, STATES.REQUEUED)], recorded)
    assert [(a.job, a.restart_count) for a in result.changes.begun] == [(recorded[1][0].known.key, 0)]
    assert result.changes.new == ()


def test_an_end_that_was_guessed_is_corrected_however_long_ago_it_was():
    changes, tracked = follow(look(0, make_job(1)), look(3 * 24 * 60, make_job(2)))
    assert changes.vanished
    known = tracked[1]
    guessed = replace(known.attempt, cause=EndCause.UNKNOWN, state=STATES.UNKNOWN, ended_at=at(0))
    recorded = {1: [RecordedJob(replace(known, attempt=guessed, ended_at=at(0)), (guessed,))]}
    [(before, after)] = plan([make_past(1, -1, 20, STATES.TIMEOUT)], recorded).corrected
    assert (before, after.cause, after.ended_at) == (guessed, EndCause.TIME_LIMIT, at(20))


def test_a_requeue_whose_next_execution_is_told_later_goes_on_in_the_same_job():
    first = plan([make_past(1, 5, 10, STATES.REQUEUED)], until=12)
    recorded = taken_up(first)
    second = plan([make_past(1, 15, 20, submitted=10)], recorded)
    assert [(a.job, a.restart_count) for a in second.changes.begun] == [(first.changes.new[0].key, 1)]


EXECUTIONS = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 8), st.integers(1, 6), st.booleans(), st.sampled_from([1000, 2000])),
    max_size=8,
)


@given(EXECUTIONS, st.data())
def test_told_twice_in_any_pieces_and_order_it_is_recorded_once(drawn, data):
    rows, ends = [], {}
    for job_id, pause, length, is_requeue, uid in drawn:
        before = ends.get(job_id, 0)
        started = before + pause + 2  # more than a minute after the end: a requeue is submitted at it
        submitted = before if is_requeue else started
        rows.append(make_past(job_id, started, started + length, submitted=submitted, uid=uid))
        ends[job_id] = started + length
    rows.sort(key=lambda each: each.ended_at)
    cut = data.draw(st.integers(0, len(rows)))
    recorded = {}
    for piece in (rows[:cut], rows[cut:], rows):
        recorded = taken_up(plan(data.draw(st.permutations(piece)), recorded, until=600, now=601), recorded)
    found = [a for entries in recorded.values() for entry in entries for a in entry.attempts]
    assert sorted((a.job.job_id, a.started_at) for a in found) == sorted((r.job.job_id, r.started_at) for r in rows)
    assert len({(a.job, a.restart_count) for a in found}) == len(rows)
    for entries in recorded.values():
        for entry in entries:
            assert [a.restart_count for a in entry.attempts] == list(range(len(entry.attempts)))
            starts = {(entry.known.key.job_id, attempt.started_at) for attempt in entry.attempts}
            assert {entry.known.job.uid} == {r.job.uid for r in rows if (r.job.job_id, r.started_at) in starts}
    assert plan(rows, recorded, until=600, now=601).is_empty
