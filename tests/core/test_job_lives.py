"""Whole lives of jobs, looked at whenever it happens: what is recorded of them against what was true."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from ckptd.core import queue
from ckptd.core.model import Attempt, EndCause, Unknown
from ckptd.core.queue import accounting_merge
from support.examples import FACTOR
from support.queue_facts import STATES, at, look, make_job, make_row

NO_ACCOUNTING = Unknown(what="accounting", reason="there is none")


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
        changes = queue.compare(tracked, look(now, *(job for job in shown if job)))
        rows = tuple(row for job in jobs for row in job.account(now)) if has_accounting else NO_ACCOUNTING
        asked = changes.asks_accounting
        if has_accounting:
            rows = tuple(row for row in rows if row.job_id in asked and row.ended_at >= changes.asks_since)
        changes = accounting_merge.merge_accounting(changes, rows, at(now))
        record.write(changes)
        tracked = queue.apply(tracked, changes)
        for known in tracked.values():
            own = record.of(known.key)
            assert known.attempt is None or own[known.attempt.restart_count] == known.attempt
            open_counts = [count for count, attempt in own.items() if attempt.ended_at is None]
            assert open_counts in ([], [max(own, default=0)]), "only the latest attempt may be open"
            assert known.is_open or not open_counts, "an attempt is open after its job ended"
    return record


@settings(max_examples=40 * FACTOR, deadline=None)
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
        assert causes == [EndCause.REQUEUE] * (len(own) - 1) + [queue.CAUSES[life.end]]


@settings(max_examples=40 * FACTOR, deadline=None)
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
