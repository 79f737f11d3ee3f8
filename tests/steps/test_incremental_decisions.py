"""Decisions about the runs that changed come to the same flags as decisions about all of them."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import hypothesis
import pytest
from hypothesis import strategies as st

from ckptd.core.health.evaluation import ASKING_FOR_OWN_FLAG
from ckptd.core.health.no_room import NoRoom
from ckptd.core.model import CheckpointState, JobState, LimitSignal, Maintenance
from ckptd.steps import decide, decision_slice, publish, read_scripts
from ckptd.steps.decision_slice import DecisionSlice
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.results import IDLE
from ckptd.steps.run_facts import EndTallies, JobHolds
from ckptd.steps.snapshots import RunHistories
from support.deciding import Always, Counted, Deciding, files
from support.examples import FACTOR
from support.queue_facts import CLUSTER, at, make_job

JOBS = (1, 2, 3, 4)  # 3 and 4 are tasks of one array

states = st.sampled_from(
    [JobState.RUNNING] * 5 + [JobState.SUSPENDED, JobState.PENDING, JobState.COMPLETED, JobState.FAILED]
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["poll", "locate", "locate", "scan", "scan", "scan", "change", "wait"]),
        st.sampled_from(JOBS),
        st.sampled_from([0.1, 0.5, 0.5, 1, 2, 3, 5, 8, 14]),  # minutes since the step before
        states,
        st.sampled_from([2, 7, 20]),  # minutes between two saves
        st.sampled_from([CheckpointState.COMPLETE] * 3 + [CheckpointState.WRITING, CheckpointState.DAMAGED]),
        st.sampled_from([10**8, 10**8, 2400, 500]),
        st.integers(0, 1),
        st.sampled_from([0, 0, 0, 1, 3]),  # of the oldest saves, deleted
        st.sampled_from([None, None, "pin", "verify", "prune"]),  # by another process, also while a scan is on its way
    ),
    min_size=4,
    max_size=25,
)


FOUR_SAVES_BEFORE_A_REQUEUE = [
    *[("poll", 1, 0.1, JobState.RUNNING, 2, CheckpointState.COMPLETE, 10**8, 0, 0, None)] * 2,
    ("locate", 1, 8, JobState.RUNNING, 2, CheckpointState.COMPLETE, 10**8, 0, 0, None),
    ("scan", 1, 0.1, JobState.RUNNING, 2, CheckpointState.COMPLETE, 10**8, 0, 0, None),
    ("poll", 1, 0.1, JobState.RUNNING, 2, CheckpointState.COMPLETE, 10**8, 1, 0, None),
]


@hypothesis.example(FOUR_SAVES_BEFORE_A_REQUEUE, 1)
@hypothesis.given(steps, st.sampled_from([1, 60]))
@hypothesis.settings(
    max_examples=8 * FACTOR, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
def test_incremental_decisions_equal_those_from_scratch(tmp_path, planned, compared_after):
    twins = [Deciding(tmp_path, forgets=forgets, compared_after=compared_after) for forgets in (False, True)]
    try:
        jobs = {
            job_id: make_job(
                job_id,
                time_limit=timedelta(minutes=90),
                ends_at=at(90),
                **({"array_job_id": 3, "array_task_id": job_id} if job_id > 2 else {}),
            )
            for job_id in JOBS
        }
        minute = 0
        deleted = dict.fromkeys(JOBS, 0)
        for twin in twins:
            twin.poll(0, jobs.values())
        for kind, job_id, gap, job_state, save_gap, newest, free_bytes, restarts, gone, change in planned:
            minute += gap
            deleted[job_id] += gone
            if kind == "poll":
                known = jobs[job_id]
                jobs[job_id] = make_job(
                    job_id,
                    state=job_state,
                    restart_count=known.restart_count + restarts,
                    started_at=at(minute) if restarts else known.started_at,
                    submitted_at=at(minute) if restarts else known.submitted_at,
                    time_limit=timedelta(minutes=90),
                    ends_at=at(minute + 90) if restarts else known.ends_at,
                    array_job_id=known.array_job_id,
                    array_task_id=known.array_task_id,
                )
            for twin in twins:
                if kind == "poll":
                    twin.poll(minute, jobs.values())
                elif kind == "locate":
                    twin.locate(minute, job_id)
                elif kind == "scan":
                    found = files(job_id, minute, save_gap, newest)[deleted[job_id] :]
                    meanwhile = partial(change_and_decide, twin, minute, job_id, change)
                    twin.scan(minute, job_id, found, free_bytes, meanwhile)
                elif kind == "change" and change is not None:
                    twin.change(minute, job_id, change)
                twin.decide(minute)
            assert twins[0].flags() == twins[1].flags()
            assert twins[0].list_outdated() == []
    finally:
        for twin in twins:
            twin.store.close()


def change_and_decide(twin, minute, job_id, change):
    """Do what another process, and then the daemon, may do while a directory is scanned."""
    if change is not None:
        twin.change(minute, job_id, change)
        twin.decide(minute)


def test_what_an_old_poll_left_undecided_is_decided_after_the_next_one(tmp_path):
    twin = Deciding(tmp_path, forgets=False)
    jobs = [make_job(1, time_limit=timedelta(minutes=90), ends_at=at(90))]
    twin.poll(0, jobs)
    twin.locate(1, 1)
    twin.scan(35, 1, files(1, 35, 7, CheckpointState.COMPLETE), 500)
    twin.decide(35)
    assert twin.flags() == []
    twin.poll(36, jobs)
    twin.decide(36)
    assert [flag[1] for flag in twin.flags()] == ["no-room"]
    twin.store.close()


@pytest.fixture
def counted(tmp_path):
    rule = Counted()
    twin = Deciding(tmp_path, forgets=False, rules=(rule,))
    twin.poll(0, [make_job(job_id) for job_id in JOBS])
    for job_id in JOBS:
        twin.locate(1, job_id)
    twin.poll(1, [make_job(job_id) for job_id in JOBS])
    twin.decide(1)
    rule.asked.clear()
    yield twin, rule
    twin.store.close()


def list_compared(twin, monkeypatch, minute, jobs):
    """Poll and decide; return the directories of the runs whose histories were made again."""
    made = []
    bring_up = decide.bring_up
    with monkeypatch.context() as patched:
        patched.setattr(decide, "bring_up", lambda *words: made.extend(words[2]) or bring_up(*words))
        twin.poll(minute, jobs)
        twin.decide(minute)
    return {key.directory for key in made}


def compare_twice(twin, *jobs):
    for minute in (2, 3):
        twin.poll(minute, jobs)
        twin.decide(minute)


ALL = {f"/scratch/{job_id}" for job_id in JOBS}


def test_a_poll_that_changes_nothing_makes_no_history_again(counted, monkeypatch):
    twin, _ = counted
    jobs = [make_job(job_id) for job_id in JOBS]
    compare_twice(twin, *jobs)
    assert list_compared(twin, monkeypatch, 4, jobs) == set()


@pytest.mark.parametrize(
    "changes", [{"ends_at": at(500)}, {"state": JobState.SUSPENDED}, {"comment": "other"}, {"node_count": 7}]
)
def test_a_poll_that_changes_a_job_makes_the_history_of_its_run_again(counted, monkeypatch, changes):
    twin, _ = counted
    jobs = [make_job(job_id) for job_id in JOBS]
    compare_twice(twin, *jobs)
    assert list_compared(twin, monkeypatch, 4, [replace(jobs[0], **changes), *jobs[1:]]) == {"/scratch/1"}


def test_runs_with_another_user_in_their_directory_are_always_compared(counted, monkeypatch):
    twin, _ = counted
    jobs = [make_job(job_id) for job_id in JOBS]
    other = make_job(9, uid=2000, user="bob")
    compare_twice(twin, *jobs, other)
    twin.locate(3, 9, directory="/scratch/1")
    assert list_compared(twin, monkeypatch, 4, [*jobs, other]) == {"/scratch/1"}
    assert list_compared(twin, monkeypatch, 5, [*jobs, other]) == {"/scratch/1"}
    ended = replace(other, state=JobState.COMPLETED, ends_at=at(5.5))
    assert "/scratch/1" in list_compared(twin, monkeypatch, 6, [*jobs, ended])


@pytest.mark.parametrize("kind", ["maintenance", "preempted", "holds", "parts"])
def test_what_all_runs_share_has_all_compared_when_it_changes(counted, monkeypatch, kind):
    twin, _ = counted
    jobs = [make_job(job_id) for job_id in JOBS]
    compare_twice(twin, *jobs)
    if kind == "maintenance":
        planned = (Maintenance("update", at(60), at(120), frozenset({"n1"})),)
        twin.state.change(PolledQueue, lambda queued: replace(queued, maintenance=planned))
    elif kind == "preempted":
        twin.state.change(EndTallies, lambda tallies: replace(tallies, preempted={"main": 1}))
    elif kind == "holds":
        twin.state.publish(replace(twin.state.latest(JobHolds)))
    else:
        twin.parts = replace(twin.parts)
    assert list_compared(twin, monkeypatch, 4, jobs) == ALL
    assert list_compared(twin, monkeypatch, 5, jobs) == set()


def test_a_signal_that_a_script_asks_for_has_its_run_compared(counted, monkeypatch):
    twin, _ = counted
    jobs = [make_job(job_id) for job_id in JOBS]
    compare_twice(twin, *jobs)
    read_scripts.known_signals(twin.state)[2] = LimitSignal("USR1", 120)
    assert list_compared(twin, monkeypatch, 4, jobs) == {"/scratch/2"}


def test_nothing_is_evaluated_while_nothing_changes(counted):
    twin, rule = counted
    for minute in range(2, 12):  # longer than a poll may be old
        twin.poll(minute, [make_job(job_id) for job_id in JOBS])
        twin.decide(minute)
    assert rule.asked == []


def test_a_poll_that_became_too_old_has_every_run_evaluated_once(counted, monkeypatch):
    twin, _ = counted
    evaluated = []
    evaluate_run = decide._evaluate_run
    monkeypatch.setattr(decide, "_evaluate_run", lambda *given: evaluated.append(given) or evaluate_run(*given))
    old = 1 + twin.parts.max_poll_age / timedelta(minutes=1)
    for minute, expected in ((old, 0), (old + 0.1, len(JOBS)), (old + 1, len(JOBS))):
        twin.decide(minute)
        assert len(evaluated) == expected


@pytest.mark.parametrize(("name", "times"), [("checkpoint-overdue", 1), ("at-risk", 2)])
def test_a_flag_has_a_run_evaluated_again_only_if_its_rule_asks_for_it(tmp_path, name, times):
    rule = Always(name)
    twin = Deciding(tmp_path, forgets=False, rules=(rule,))
    assert (name in ASKING_FOR_OWN_FLAG) == (times > 1)
    twin.poll(0, [make_job(1)])
    twin.locate(1, 1)
    for _ in range(3):
        twin.decide(1)
    assert len(rule.asked) == times
    [history] = twin.state.latest(RunHistories).by_run.values()
    assert history.context.flagged == {(name, None)}  # actions on the job read it
    twin.store.close()


def test_only_the_scanned_run_is_evaluated(counted):
    twin, rule = counted
    twin.scan(2, 2, files(2, 2, 1, CheckpointState.COMPLETE), 10**8)
    twin.decide(2)
    assert [key.directory for key in rule.asked] == ["/scratch/2"]


def test_only_the_located_run_is_compared(counted, monkeypatch):
    twin, rule = counted
    jobs = [make_job(job_id) for job_id in (*JOBS, 20, 21)]
    twin.poll(2, jobs)
    twin.decide(2)
    compared = []
    evaluate_some = decide._evaluate_some
    monkeypatch.setattr(
        decide,
        "_evaluate_some",
        lambda parts, state, scans, *others: compared.extend(scans) or evaluate_some(parts, state, scans, *others),
    )
    rule.asked.clear()
    twin.locate(2, 20)
    twin.decide(2)
    assert [key.directory for key in compared] == ["/scratch/20"]
    assert {key.directory for key in rule.asked} == {"/scratch/20"}


def test_a_later_scan_that_found_the_same_evaluates_nothing(counted):
    twin, rule = counted
    found = files(2, 2, 1, CheckpointState.COMPLETE)
    twin.scan(2, 2, found, 10**8)
    twin.decide(2)
    rule.asked.clear()
    for minute in (4, 6, 8):
        twin.scan(minute, 2, found, 10**8 + minute)
        twin.decide(minute)
    assert rule.asked == []
    [history] = [each for key, each in twin.state.latest(RunHistories).by_run.items() if key.directory == "/scratch/2"]
    assert history.scan.scanned_at == at(8)  # others see when it was scanned last
    twin.scan(10, 2, files(2, 3, 1, CheckpointState.COMPLETE), 10**8)
    twin.decide(10)
    assert [key.directory for key in rule.asked] == ["/scratch/2"]


def test_less_free_space_is_judged_though_a_scan_found_the_same(tmp_path):
    twin = Deciding(tmp_path, forgets=False, rules=(NoRoom(),))
    jobs = [make_job(1)]
    twin.poll(0, jobs)
    twin.locate(1, 1)
    twin.poll(1, jobs)
    for minute, free_bytes, opened in ((2, 10**8, False), (4, 1999, True), (6, 2499, True), (8, 2501, False)):
        twin.scan(minute, 1, files(1, 2, 2, CheckpointState.COMPLETE), free_bytes)
        twin.decide(minute)
        assert bool(twin.store.flags.list_open(CLUSTER)) == opened
    twin.store.close()


def test_only_the_run_of_a_changed_job_is_evaluated(counted):
    twin, rule = counted
    twin.poll(2, [make_job(job_id, restart_count=int(job_id == 4), submitted_at=at(-2)) for job_id in JOBS])
    twin.decide(2)
    assert {key.directory for key in rule.asked} == {"/scratch/4"}


def test_a_decision_is_due_one_poll_interval_after_the_last_comparison(counted):
    twin, rule = counted
    twin.state.decision_due.clear()
    gap = twin.parts.poll_interval
    compared_at = twin.state.find(DecisionSlice).compared_at
    asked_before = len(rule.asked)
    assert decide.run(twin.parts, twin.state, compared_at + gap / 2) is IDLE
    assert decide.run(twin.parts, twin.state, compared_at + gap) is not IDLE
    assert twin.state.find(DecisionSlice).compared_at == compared_at + gap
    assert len(rule.asked) == asked_before


def test_decisions_about_many_runs_are_some_time_apart_and_none_is_forgotten(counted, monkeypatch):
    twin, _ = counted
    monkeypatch.setattr(decision_slice, "PAUSE_PER_RUN", timedelta(seconds=1))
    run_count = len(twin.state.find(DecisionSlice).evaluated.by_run)
    assert run_count > 1
    for seconds, is_decided in ((0, True), (run_count - 1, False), (run_count, True), (-60, True)):
        twin.state.decision_due.set()
        decide.run(twin.parts, twin.state, at(60) + timedelta(seconds=seconds))
        assert twin.state.decision_due.is_set() is not is_decided


@pytest.mark.parametrize(("per_run", "pause"), [(1, len(JOBS)), (3600, 60 * decision_slice.SHARE_OF_GAP)])
def test_a_decision_after_a_poll_waits_for_the_scans_that_follow_but_not_until_the_next_poll(
    counted, monkeypatch, per_run, pause
):
    twin, _ = counted
    assert twin.parts.poll_interval == timedelta(seconds=60)
    twin.state.decision_due.set()
    decide.run(twin.parts, twin.state, at(2))
    monkeypatch.setattr(decision_slice, "PAUSE_PER_RUN", timedelta(seconds=per_run))
    twin.poll(600, [make_job(job_id) for job_id in JOBS])
    for seconds, is_decided in ((0, False), (pause - 1, False), (pause, True)):
        twin.state.decision_due.set()
        decide.run(twin.parts, twin.state, at(600) + timedelta(seconds=seconds))
        assert twin.state.decision_due.is_set() is not is_decided


def test_decisions_come_sooner_while_scans_fill_the_room_for_what_they_changed(counted, monkeypatch):
    twin, _ = counted
    monkeypatch.setattr(decision_slice, "PAUSE_PER_RUN", timedelta(seconds=10))
    run_count = len(twin.state.find(DecisionSlice).evaluated.by_run)
    fresh = twin.parts.store.histories.fresh
    monkeypatch.setattr(fresh, "_count", fresh._kept_count)
    pause = 10 * decision_slice.SHORTER * run_count
    for seconds, is_decided in ((0, True), (pause - 1, False), (pause, True)):
        twin.state.decision_due.set()
        decide.run(twin.parts, twin.state, at(60) + timedelta(seconds=seconds))
        assert twin.state.decision_due.is_set() is not is_decided


def test_all_runs_are_summed_up_less_often_the_more_there_are(counted, monkeypatch):
    twin, _ = counted
    monkeypatch.setattr(publish, "PAUSE_PER_RUN", timedelta(seconds=1))
    first = publish.report(twin.parts, twin.state, at(60))
    run_count = first.fleet.user_count and sum(first.runs_by_locator.values())
    assert run_count > 1
    for seconds, is_same in ((run_count - 1, True), (run_count, False)):
        again = publish.report(twin.parts, twin.state, at(60) + timedelta(seconds=seconds))
        assert again.made_at == at(60) + timedelta(seconds=seconds)
        assert (again.fleet is first.fleet) is is_same


def test_a_decision_after_searches_and_scans_does_not_compare_every_run_again(tmp_path):
    twin = Deciding(tmp_path, forgets=False)
    twin.poll(0, [make_job(1)])
    twin.decide(0)
    memory = twin.state.find(DecisionSlice)
    assert memory.compared_at == at(0)
    twin.locate(0.2, 1)
    twin.decide(0.3)  # the polled queue has the job's directory now, and its run alone is compared
    assert memory.compared_at == at(0)
    twin.scan(0.5, 1, files(1, 1, 1, CheckpointState.COMPLETE), 10**8)
    twin.decide(0.6)
    assert memory.compared_at == at(0)
    twin.poll(1, [make_job(1)])
    twin.decide(1)
    assert memory.compared_at == at(1)
