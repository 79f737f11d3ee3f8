from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptd.core import settlement, tracking
from ckptd.core.model import ENDED_STATES, Attempt, EndCause, RestartKind, Unknown
from support.queue_facts import STATES, at, follow, look, make_job, make_row

NO_ACCOUNTING = Unknown(what="accounting", reason="there is none")


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


def test_accounting_corrects_the_guessed_cause_of_a_requeue():
    waiting = make_job(1, STATES.PENDING, 1, submitted_at=at(4))
    changes, _ = follow(look(0, make_job(1)), look(5, waiting))
    assert changes.asks_accounting == {1}
    settled = settlement.settle(changes, (make_row(1, -1, 3, STATES.NODE_FAIL),), at(5))
    assert [(attempt.cause, attempt.ended_at) for attempt in settled.ended] == [(EndCause.NODE_FAILURE, at(3))]
    assert settled.changed[0].attempt == settled.ended[0]


def test_a_job_that_gave_nodes_back_is_one_execution_that_ends_with_its_last_row():
    changes, _ = follow(look(0, make_job(1)), look(9, make_job(1, STATES.PENDING, 1, submitted_at=at(8))))
    rows = make_row(1, -1, 4, STATES.RESIZING), make_row(1, -1, 7, STATES.PREEMPTED, submitted=4)
    settled = settlement.settle(changes, rows, at(9))
    assert [(each.cause, each.ended_at) for each in settled.ended] == [(EndCause.PREEMPTION, at(7))]


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
    assert set(tracking.CAUSES) >= ENDED_STATES


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
    settled = settlement.settle(changes, rows, at(35))
    found = {attempt.restart_count: (attempt.cause, attempt.ended_at) for attempt in settled.ended}
    assert found == {
        0: (EndCause.REQUEUE, at(9)),
        1: (EndCause.NODE_FAILURE, at(19)),
        2: (EndCause.PREEMPTION, at(30)),
    }
    assert sorted(attempt.restart_count for attempt in settled.begun) == [1, 2, 3]
    assert settled.changed[0].attempt.restart_count == 3


def test_restarts_missed_that_accounting_knows_in_part_are_the_latest_ones():
    now_running = make_job(1, STATES.RUNNING, 3, submitted_at=at(30), started_at=at(31))
    changes, _ = follow(look(35, now_running))
    settled = settlement.settle(changes, (make_row(1, 20, 30, STATES.REQUEUED, 19),), at(35))
    assert [attempt.restart_count for attempt in settled.begun if attempt.ended_at] == [2]


def test_restarts_missed_that_nobody_knows_are_only_counted():
    now_running = make_job(1, STATES.RUNNING, 3, submitted_at=at(30), started_at=at(31))
    changes, tracked = follow(look(0, make_job(1)), look(35, now_running))
    settled = settlement.settle(changes, NO_ACCOUNTING, at(35))
    assert [attempt.restart_count for attempt in settled.begun] == [3]
    assert tracked[1].job.restart_count == 3


def test_a_vanished_job_stays_open_until_it_is_settled():
    changes, tracked = follow(look(0, make_job(1), make_job(2)), look(5, make_job(2)))
    assert [known.key.job_id for known in changes.vanished] == [1]
    assert (changes.asks_accounting, changes.is_empty) == ({1}, True)
    assert tracked[1].is_open
    assert tracked[1].last_seen_at == at(0)


def test_a_vanished_job_ends_as_accounting_says():
    changes, tracked = follow(look(0, make_job(1), make_job(2)), look(5, make_job(2)))
    settled = settlement.settle(changes, (make_row(1, -1, 2, STATES.TIMEOUT),), at(5))
    assert [(attempt.cause, attempt.ended_at) for attempt in settled.ended] == [(EndCause.TIME_LIMIT, at(2))]
    assert tracking.apply(tracked, settled)[1].job.state is STATES.TIMEOUT


def test_a_vanished_job_that_nobody_knows_ended_for_an_unknown_cause_when_last_seen():
    changes, tracked = follow(
        look(0, make_job(1), make_job(2)), look(3, make_job(1), make_job(2)), look(9, make_job(2))
    )
    settled = settlement.settle(changes, NO_ACCOUNTING, at(9))
    assert [(attempt.cause, attempt.ended_at) for attempt in settled.ended] == [(EndCause.UNKNOWN, at(3))]
    assert [known.key.job_id for known in settled.jobs_ended] == [1]
    assert not tracking.apply(tracked, settled)[1].is_open


def test_a_job_whose_end_nobody_knew_may_come_back_as_the_same_attempt():
    changes, tracked = follow(look(0, make_job(1), make_job(2)), look(5, make_job(2)))
    tracked = tracking.apply(tracked, settlement.settle(changes, NO_ACCOUNTING, at(5)))
    changes, tracked = follow(look(6, make_job(1), make_job(2)), tracked=tracked)
    assert (changes.new, changes.begun) == ((), ())
    assert [(attempt.restart_count, attempt.ended_at) for attempt in changes.updated] == [(0, None)]
    assert tracked[1].is_open


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
    assert tracking.is_suspect(tracked, again) is suspect


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
    assert tracking.assign_kind(earlier, attempt) is kind


@dataclass
class Life:
    """The truth about one job: its executions as (submitted, start, end), in minutes, and how it ended."""

    job_id: int
    executions: list
    completing: int
    shown: int
    end: object

    def show(self, now):
        """What the queue shows of the job at an instant, None where nothing."""
        for count, (submitted, start, end) in enumerate(self.executions):
            facts = {"submitted_at": at(submitted), "started_at": at(start), "ends_at": at(start + 60)}
            is_last = count == len(self.executions) - 1
            if now < submitted:
                return None
            if now < start:
                return make_job(self.job_id, STATES.PENDING, count, **facts, node_list="")
            if now < end:
                return make_job(self.job_id, STATES.RUNNING, count, **facts)
            if now < end + self.completing:
                facts["ends_at"] = at(end)
                return make_job(self.job_id, STATES.COMPLETING, count + (not is_last), **facts)
            if is_last and now < end + self.completing + self.shown:
                return make_job(self.job_id, self.end, count, **(facts | {"ends_at": at(end)}))
            if is_last:
                return None
            after = self.executions[count + 1]
            if now < after[1]:
                facts = {"submitted_at": at(end), "started_at": at(after[1])}
                return make_job(self.job_id, STATES.PENDING, count + 1, **facts, node_list="")
        return None

    def account(self, now):
        for count, (submitted, start, end) in enumerate(self.executions):
            if end <= now:
                is_last = count == len(self.executions) - 1
                yield make_row(self.job_id, start, end, self.end if is_last else STATES.REQUEUED, submitted)


@st.composite
def lives(draw, job_id):
    completing = draw(st.integers(0, 3))
    moment = draw(st.integers(0, 20))
    executions = []
    for _ in range(draw(st.integers(1, 5))):
        start = moment + completing + draw(st.integers(1, 10))
        end = start + draw(st.integers(1, 15))
        executions.append((moment, start, end))
        moment = end
    end = draw(st.sampled_from([STATES.COMPLETED, STATES.TIMEOUT, STATES.FAILED, STATES.CANCELLED]))
    return Life(job_id, executions, completing, draw(st.integers(0, 6)), end)


@st.composite
def histories(draw):
    jobs = [draw(lives(number)) for number in range(1, draw(st.integers(1, 4)) + 1)]
    instants = sorted(draw(st.sets(st.integers(0, 180), min_size=1, max_size=40)))
    return jobs, [*instants, 400]


class Record:
    """What a store would hold, with the rules that it relies on."""

    def __init__(self):
        self.attempts = {}
        self.seen = set()

    def write(self, changes):
        for attempt in changes.begun:
            assert self._name(attempt) not in self.attempts, "an attempt is doubled"
            self.attempts[self._name(attempt)] = attempt
        for attempt in (*changes.updated, *changes.ended):
            assert self._name(attempt) in self.attempts, "an attempt ended that never began"
            self.attempts[self._name(attempt)] = attempt
        self.seen |= {known.key for known in changes.new}

    def of(self, key) -> dict[int, Attempt]:
        return {attempt.restart_count: attempt for name, attempt in self.attempts.items() if name[0] == key}

    @staticmethod
    def _name(attempt):
        return attempt.job, attempt.restart_count


def replay(jobs, instants, *, has_accounting):
    record, tracked = Record(), {}
    for now in instants:
        shown = [job.show(now) for job in jobs]
        changes = tracking.compare(tracked, look(now, *(job for job in shown if job)))
        rows = tuple(row for job in jobs for row in job.account(now)) if has_accounting else NO_ACCOUNTING
        asked = changes.asks_accounting
        if has_accounting:
            rows = tuple(row for row in rows if row.job_id in asked and row.ended_at >= changes.asks_since)
        changes = settlement.settle(changes, rows, at(now))
        record.write(changes)
        tracked = tracking.apply(tracked, changes)
        for known in tracked.values():
            own = record.of(known.key)
            assert known.attempt is None or own[known.attempt.restart_count] == known.attempt
            open_counts = [count for count, attempt in own.items() if attempt.ended_at is None]
            assert open_counts in ([], [max(own, default=0)]), "only the latest attempt may be open"
            assert known.is_open or not open_counts, "an attempt is open after its job ended"
    return record


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


@settings(max_examples=400, deadline=None)
@given(histories())
def test_with_accounting_no_attempt_of_a_job_once_seen_is_lost_doubled_or_left_open(history):
    jobs, instants = history
    record = replay(jobs, instants, has_accounting=True)
    for key in record.seen:
        life = next(job for job in jobs if job.job_id == key.job_id)
        own = record.of(key)
        assert {count: (attempt.started_at, attempt.ended_at) for count, attempt in own.items()} == {
            count: (at(start), at(end)) for count, (_, start, end) in enumerate(life.executions)
        }
        causes = [own[count].cause for count in sorted(own)]
        assert causes == [EndCause.REQUEUE] * (len(own) - 1) + [tracking.CAUSES[life.end]]


@settings(max_examples=400, deadline=None)
@given(histories())
def test_without_accounting_what_is_recorded_is_true_and_ends(history):
    jobs, instants = history
    record = replay(jobs, instants, has_accounting=False)
    for key in record.seen:
        life = next(job for job in jobs if job.job_id == key.job_id)
        for count, attempt in record.of(key).items():
            _, start, end = life.executions[count]
            assert attempt.started_at == at(start)
            assert at(start) <= attempt.ended_at <= at(end)
