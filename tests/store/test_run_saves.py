"""Attempts of one run that end together have its saves read once, with what each would be answered alone."""

import itertools
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from ckptd.core.model import CheckpointState, Role
from ckptd.core.runs.lost_work import measure_loss
from ckptd.store import run_saves
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job
from support.recorded import locate, poll, scan

TASKS = (1, 2, 3)


def run_tasks(store):
    """Three tasks save in one directory; each replaces its files, one is requeued, and one ended before."""
    jobs = {number: make_job(number) for number in (*TASKS, 4)}
    poll(store, 0, *jobs.values())
    for number in jobs:
        locate(store, number)
    attempts = store.histories.read(CLUSTER, [RUN])[0].attempts
    for minute in range(2, 20, 3):
        found = [
            make_checkpoint(
                f"task{number}-{minute + number}.pt",
                written=minute + number / 4,
                role=Role.STATE if number % 2 else Role.DATA,
                state=CheckpointState.DAMAGED if (minute, number) == (14, 1) else CheckpointState.COMPLETE,
            )
            for number in TASKS
        ]
        scan(store, minute + 1, *found, attempts=[] if minute == 8 else attempts, looked=minute - 2)
    poll(store, 21, *(replace(jobs[number], state=STATES.FAILED, ends_at=at(17 + number)) for number in TASKS))
    scan(store, 23, make_checkpoint("task1-late.pt", written=21, role=Role.STATE), attempts=attempts, looked=20)


@pytest.mark.filled_by(record=run_tasks)
@pytest.mark.parametrize("has_states", [True, False])
def test_saves_that_are_read_once_answer_as_those_that_are_asked_for(store, has_states):
    with store.database.writing() as connection:
        if not has_states:
            connection.execute(sa.text("UPDATE checkpoints SET role = (SELECT min(role) FROM checkpoints)"))
        run_id = connection.scalar(sa.text("SELECT id FROM runs WHERE directory LIKE '/%'"))
        asked, read = (run_saves.open_saves(connection, run_id, count) for count in (1, run_saves.FEW + 1))
        ids = dict(
            connection.execute(sa.text("SELECT j.job_id, a.id FROM attempts a JOIN jobs j ON j.id = a.job_row")).all()
        )
        instants = [at(minute / 2) for minute in range(52)]
        losses = set()
        for attempt, ended_at in itertools.product(store.histories.read(CLUSTER, [RUN])[0].attempts, instants):
            ended = replace(attempt, ended_at=ended_at, started_at=at(3))
            attempt_id = ids[attempt.job.job_id]
            expected, found = (measure_loss(ended, each.list_latest(attempt_id, ended)) for each in (asked, read))
            assert found == expected, (attempt.job.job_id, ended_at)
            losses.add(found.saved_at)
        assert len(losses) > len(TASKS)
        pairs = [(read_at, next_at) for read_at, next_at in itertools.product(instants, instants) if read_at < next_at]
        expected = [asked.is_replaced(*pair) for pair in pairs]
        assert [read.is_replaced(*pair) for pair in pairs] == expected
        assert set(expected) == {True, False}


@contextmanager
def counting(store):
    """List the statements that read checkpoints."""
    found = []

    def note(_connection, _cursor, statement, *_):
        if "FROM checkpoints" in statement:
            found.append(statement)

    sa.event.listen(store.database._engine, "before_cursor_execute", note)
    yield found
    sa.event.remove(store.database._engine, "before_cursor_execute", note)


def count_reads(store, run, first, count):
    """Return how many statements read checkpoints when so many tasks end at once, and at the next scan."""
    jobs = [make_job(first + number) for number in range(count)]
    poll(store, 0, *jobs)
    for each in jobs:
        locate(store, each.job_id, run)
    with counting(store) as found:
        poll(store, 21, *(replace(job, state=STATES.FAILED, ends_at=at(20)) for job in jobs))
        polled = len(found)
        again = [make_job(first + count + number, started_at=at(22)) for number in range(2)]
        poll(store, 23, *again)
        scan(store, 24, make_checkpoint(f"{first}.pt", written=4), run=run)
    return polled, len(found)


def test_the_ends_of_tasks_that_save_in_one_directory_read_it_once(store):
    runs = [replace_directory(name) for name in ("few", "many")]
    few, many = (count_reads(store, run, *asked) for run, asked in zip(runs, ((100, 6), (200, 24)), strict=True))
    assert many == few


def replace_directory(name):
    return RUN._replace(directory=f"/data/alice/{name}")


def test_saves_that_were_deleted_before_are_not_gone_through_for_each_task(monkeypatch):
    count, asked = 100, []
    rows = [(at(minute), at(minute + 4), minute % 10, True) for minute in range(count)]
    saves = run_saves.open_saves(SimpleNamespace(execute=lambda *_: rows), 1, run_saves.FEW + 1)
    was_there = run_saves._Save.was_there
    monkeypatch.setattr(run_saves._Save, "was_there", lambda self, at: asked.append(at) or was_there(self, at))
    for number in range(10):
        ended = SimpleNamespace(started_at=at(0), ended_at=at(2 * count + number), job=number, restart_count=0)
        assert saves.list_latest(number, ended) == []
        assert not saves.is_replaced(ended.ended_at, ended.ended_at)
    assert len(asked) <= 10
