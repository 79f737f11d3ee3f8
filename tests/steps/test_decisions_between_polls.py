"""Between two polls, a decision looks only at the runs of which something changed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.model import CheckpointState, JobState, RunKey
from ckptd.steps import decide, evaluated_runs
from ckptd.steps.decision_slice import DecisionSlice
from ckptd.steps.evaluated_runs import EvaluatedRun
from ckptd.steps.snapshots import CurrentFlags
from ckptd.store import history_rows
from support.deciding import Always, Counted, Deciding, files
from support.queue_facts import CLUSTER, at, make_job

JOBS = (1, 2, 3)


@pytest.fixture
def rule():
    return Counted()


@pytest.fixture
def twin(tmp_path, rule):
    twin = Deciding(tmp_path, forgets=False, rules=(rule,))
    twin.poll(0, [make_job(job_id) for job_id in JOBS])
    for job_id in JOBS:
        twin.locate(0, job_id)
    twin.decide(0)
    rule.asked.clear()
    yield twin
    twin.store.close()


def list_asked(rule):
    asked = [key.directory for key in rule.asked]
    rule.asked.clear()
    return asked


def evaluated(twin, job_id):
    known = twin.state.find(DecisionSlice).evaluated
    return known, next(each for each in known.by_run.values() if each.history.key.directory == f"/scratch/{job_id}")


def test_a_scanned_run_is_looked_at_and_no_other(twin, rule, monkeypatch):
    looked_at = []
    is_due = EvaluatedRun.is_due
    monkeypatch.setattr(
        EvaluatedRun,
        "is_due",
        lambda each, *a, **b: looked_at.append(each.history.key.directory) or is_due(each, *a, **b),
    )
    twin.scan(0.2, 2, files(2, 20, 5, CheckpointState.COMPLETE), 10**8)
    twin.decide(0.3)
    assert list_asked(rule) == looked_at == ["/scratch/2"]
    twin.decide(0.4)
    assert looked_at == ["/scratch/2"]


def test_a_run_is_evaluated_when_its_last_evaluation_no_longer_holds(twin, rule):
    runs, known = evaluated(twin, 3)
    runs.put(replace(known, until=at(0.5)))
    twin.decide(0.4)
    assert list_asked(rule) == []
    twin.decide(0.5)
    assert list_asked(rule) == ["/scratch/3"]
    twin.decide(0.6)
    assert list_asked(rule) == []


def test_ends_of_evaluations_that_were_made_again_take_no_memory(twin):
    runs, known = evaluated(twin, 3)
    for number in range(1000):
        runs.put(replace(known, until=at(number)))
    assert len(runs._ends) < 200
    assert runs.take_ended(at(998)) == set()
    assert runs.take_ended(at(999)) == {known.history.key}


def test_a_job_that_comes_into_the_directory_of_another_run_has_both_compared(twin, rule):
    jobs = [make_job(job_id) for job_id in (*JOBS, 4)]
    twin.poll(0.1, jobs)
    twin.decide(0.1)
    rule.asked.clear()
    twin.locate(0.2, 4, directory="/scratch/1")
    twin.decide(0.3)
    assert list_asked(rule) == ["/scratch/1"]
    assert len(evaluated(twin, 1)[1].history.jobs) == 2


def test_a_run_that_nobody_watches_any_more_is_forgotten(twin):
    runs, known = evaluated(twin, 1)
    with twin.state.watchlist._lock:
        twin.state.watchlist._remove(known.history.key)
    twin.decide(0.2)
    assert known.history.key not in runs.by_run
    assert len(runs.by_run) == 2


def test_a_flag_of_a_job_whose_directory_is_found_moves_with_it_and_does_not_open_again(tmp_path):
    twin = Deciding(tmp_path, forgets=False, rules=(Always(),))
    twin.poll(0, [make_job(1), make_job(2)])
    twin.decide(0)
    before = {flag.flag_id: flag.opened_at for flag in twin.store.flags.list_open(CLUSTER)}
    twin.locate(0.1, 1)
    twin.decide(0.2)
    assert {flag.flag_id: flag.opened_at for flag in twin.store.flags.list_open(CLUSTER)} == before
    assert twin.state.latest(CurrentFlags).flags == twin.store.flags.list_open(CLUSTER)
    assert {flag.finding.run.directory for flag in twin.store.flags.list_open(CLUSTER)} > {"/scratch/1"}
    twin.store.close()


def test_a_job_that_follows_another_in_its_directory_has_none_of_its_checkpoints_read(twin, monkeypatch):
    found = files(1, 20, 2, CheckpointState.COMPLETE)
    key = RunKey(CLUSTER, make_job(1).uid, "/scratch/1")
    evaluated = twin.state.find(DecisionSlice).evaluated
    twin.scan(20, 1, found, 10**8)
    twin.decide(20)
    others = [make_job(job_id) for job_id in (2, 3)]
    twin.poll(21, [make_job(1, state=JobState.COMPLETED, ends_at=at(21)), *others])
    twin.scan(22, 1, found, 10**8)
    twin.decide(22)
    assert key not in evaluated.by_run
    readings = []
    load = history_rows._load_checkpoints

    def note(select, runs, **words):
        readings.append(runs)
        return load(select, runs, **words)

    monkeypatch.setattr(history_rows, "_load_checkpoints", note)
    twin.poll(23, [make_job(9, started_at=at(23)), *others])
    twin.locate(23, 9, "/scratch/1")
    twin.decide(23)
    known = evaluated.by_run[key].history
    assert readings == []
    assert (len(known.attempts), len(known.checkpoints)) == (2, len(found))
    assert key not in evaluated.left


def test_records_of_few_runs_whose_jobs_have_ended_are_kept(twin, monkeypatch):
    monkeypatch.setattr(evaluated_runs, "LEFT_COUNT", 2)
    evaluated = twin.state.find(DecisionSlice).evaluated
    keys = list(evaluated.by_run)
    for key in keys:
        evaluated.remove(key)
    assert list(evaluated.left) == keys[-2:]


def test_many_tasks_of_one_run_do_not_keep_decisions_apart_as_many_runs_do(tmp_path):
    twin = Deciding(tmp_path, forgets=False, rules=(Counted(),))
    tasks = [make_job(number, array_job_id=1, array_task_id=number) for number in range(1, 401)]
    twin.poll(0, tasks)
    for task in tasks:
        twin.locate(0, task.job_id, "/scratch/sweep")
    twin.state.decision_due.set()
    decide.run(twin.parts, twin.state, at(1))
    assert len(twin.state.find(DecisionSlice).evaluated.by_run) == 1
    for milliseconds, is_decided in ((5, False), (10, True)):
        twin.state.decision_due.set()
        decide.run(twin.parts, twin.state, at(1) + timedelta(milliseconds=milliseconds))
        assert twin.state.decision_due.is_set() is not is_decided
    twin.store.close()


def test_a_run_that_another_process_moves_during_a_decision_keeps_no_other_flag_from_being_recorded(
    tmp_path, monkeypatch
):
    twin = Deciding(tmp_path, forgets=False, rules=(Always(),))
    twin.poll(0, [make_job(1), make_job(2)])
    for job_id in (1, 2):
        twin.locate(1, job_id)
    twin.poll(2, [make_job(1), make_job(2)])
    record = twin.store.flags.record

    def move_before(*arguments):
        monkeypatch.undo()
        with twin.store.database.writing() as connection:
            connection.exec_driver_sql("UPDATE runs SET directory_hash = 'x' WHERE directory = '/scratch/1'")
        return record(*arguments)

    monkeypatch.setattr(twin.store.flags, "record", move_before)
    twin.decide(2)
    assert [each.finding.run.directory for each in twin.store.flags.list_open(CLUSTER)] == ["/scratch/2"]
    twin.store.close()
