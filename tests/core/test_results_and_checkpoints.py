"""What rules say where a run writes data: beside its checkpoints, or nothing else."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import health
from ckptd.core.forecast import projection
from ckptd.core.model import (
    Certainty,
    CheckpointState,
    RecordedCheckpoint,
    Resume,
    ResumeReason,
    Role,
    Severity,
    UserSettings,
)
from ckptd.core.runs import attempt_progress
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.runs.resumable import are_only_data, list_resumable, may_be_results
from core.histories import RUN, at, attempt, history, job, saved, text_of

RULES = tuple(kind() for kind in health.RULES.values())
SAMPLES = [saved(minute, name=f"sample-{minute}.npz", step=minute, role=Role.DATA) for minute in range(2, 60, 2)]
STATES = [saved(minute, step=minute, role=Role.STATE) for minute in (10, 20, 30)]
RESULTS = [saved(minute, name=f"result-{minute}.npz", step=minute, role=Role.DATA) for minute in (10, 20, 30, 40)]
WEIGHTS = [replace(each, checkpoint=replace(each.checkpoint, role=Role.WEIGHTS)) for each in RESULTS]


def found_by_search(checkpoints, **changes):
    return history(checkpoints=checkpoints, located_by="discovery", **changes)


def judge(given, minute):
    found = health.evaluate(
        given, RULES, at(minute), max_age=timedelta(minutes=15), min_job_duration=timedelta(minutes=10)
    )
    assert not found.failed
    assert all(text_of(each) for each in found.findings)
    return {each.rule: each.severity for each in found.findings}


def test_samples_beside_checkpoints_tell_nothing_of_how_the_run_saves():
    given = history(now=60, checkpoints=[*STATES, *SAMPLES])
    assert measure_rhythm(given).interval == timedelta(minutes=10)
    assert projection.saved_until(given, given.attempts[0]) == at(30)
    assert "checkpoint-overdue" in judge(
        history(now=75, checkpoints=[saved(0.5, role=Role.STATE), *STATES, *SAMPLES]), 75
    )


def test_progress_of_samples_is_no_progress_where_the_run_has_states():
    attempts = [attempt(0, 35), attempt(36, 60, restart_count=1)]
    reaches = attempt_progress.reaches_of(history(attempts=attempts, checkpoints=[*STATES, *SAMPLES]))
    assert [(each.save_count, each.steps) for each in reaches] == [(3, (10, 30)), (0, None)]


@pytest.mark.parametrize("state", [CheckpointState.WRITING, CheckpointState.DAMAGED])
def test_a_state_that_cannot_be_read_counts_by_its_format(state):
    unread = saved(40, step=40, state=state, role=Role.DATA)
    assert list_resumable([*STATES, unread]) == (*STATES, unread)
    assert list_resumable([*STATES, *SAMPLES]) == tuple(STATES)
    assert list_resumable(SAMPLES) == tuple(SAMPLES)


@pytest.mark.parametrize(
    ("given", "is_result"),
    [
        pytest.param(found_by_search(RESULTS), True, id="a search found data"),
        pytest.param(found_by_search([]), False, id="nothing was written yet"),
        pytest.param(found_by_search([*RESULTS, STATES[0]]), False, id="a state is among them"),
        pytest.param(found_by_search([saved(5, name="ckpt_5.npz")]), False, id="a name says that it is a checkpoint"),
        pytest.param(found_by_search([saved(5, name="checkpoints/5.npz")]), False, id="the directory's name says so"),
        pytest.param(history(checkpoints=RESULTS), False, id="the job names the directory"),
        pytest.param(
            found_by_search(RESULTS, user_settings=UserSettings(goal_step=100)), False, id="its user has set a goal"
        ),
    ],
)
def test_data_that_a_search_found_may_be_results(given, is_result):
    assert may_be_results(given) == are_only_data(given) == is_result


def test_a_job_that_only_writes_results_gets_no_flag_about_checkpoints():
    torn = saved(45, name="result-45.npz", step=45, role=Role.DATA, state=CheckpointState.DAMAGED)
    for results in (RESULTS, [*RESULTS, torn]):
        assert judge(found_by_search(results, now=100), 100) == {}
    assert judge(history(now=100, checkpoints=[*RESULTS, torn]), 100).keys() >= {"damaged-checkpoint"}
    two = [job(1), job(2)]
    both = [attempt(), attempt(5, job_id=2)]
    assert judge(found_by_search(RESULTS, now=41, jobs=two, attempts=both), 41) == {}


def test_a_job_that_only_saves_its_best_weights_is_never_overdue():
    assert judge(found_by_search(WEIGHTS, now=100), 100) == {}
    assert "checkpoint-overdue" in judge(history(now=100, checkpoints=WEIGHTS), 100)


RESTARTED = [attempt(0, 45), attempt(50, restart_count=1)]
FRESH = Resume(certainty=Certainty.INFERRED, reason=ResumeReason.PROGRESS)
GOES_ON = Resume(certainty=Certainty.INFERRED, reason=ResumeReason.PROGRESS, path=f"{RUN.directory}/result-40.npz")


@pytest.mark.parametrize(
    ("resume", "expected"),
    [
        pytest.param(None, {}, id="nobody knows yet whether it goes on"),
        pytest.param(GOES_ON, {}, id="it leaves out the parts that are there"),
        pytest.param(FRESH, {"restarted-without-checkpoint": Severity.WARNING}, id="it started afresh"),
    ],
)
def test_a_restart_of_a_job_that_only_writes_results_may_have_lost_work(resume, expected):
    attempts = [RESTARTED[0], replace(RESTARTED[1], resumed_from=resume)]
    again: RecordedCheckpoint = saved(60, name="result-10.npz", step=10, role=Role.DATA)
    assert judge(found_by_search([*RESULTS, again], now=61, attempts=attempts), 61) == expected


def test_weights_that_a_search_found_make_not_resuming_a_warning():
    again = saved(60, name="result-10.npz", step=10, role=Role.WEIGHTS)
    given = {"now": 61, "attempts": RESTARTED, "checkpoints": [*WEIGHTS, again]}
    assert judge(history(located_by="discovery", **given), 61) == {"not-resuming": Severity.WARNING}
    assert judge(history(**given), 61) == {"not-resuming": Severity.CRITICAL}


def test_a_job_that_saves_where_nobody_sees_it_is_in_no_restart_loop():
    unlocated = RUN._replace(directory="job:1@x")
    attempts = [attempt(0, 100), attempt(110, 210, restart_count=1), attempt(220, 320, restart_count=2)]
    attempts += [attempt(330, restart_count=3)]
    loop = health.RULES["restart-loop"]()
    given = history(key=unlocated, located_by=None, now=440, attempts=attempts)
    assert list(loop.evaluate(given, at(440))) == []
    assert loop.list_requeued(given, given.jobs[0], at(440)) == []
    assert list(loop.evaluate(history(now=440, attempts=attempts), at(440)))
    storm = [attempt(each * 3, each * 3 + 2, restart_count=each) for each in range(6)]
    assert list(loop.evaluate(replace(given, attempts=tuple(storm)), at(20)))


def test_a_job_that_saves_ever_later_is_not_overdue():
    best = [saved(minute, step=minute, role=Role.STATE) for minute in (5, 10, 20, 40, 80)]
    assert judge(history(now=150, checkpoints=best), 150) == {}


def fetched(minute, **changes):
    return saved(minute, name="weights/model.pt", role=Role.WEIGHTS, **changes)


LONG = [attempt(0, 128), attempt(140, restart_count=1)]
WARNED = {"restarted-without-checkpoint": Severity.WARNING}
FETCHED = {
    "a file that was there before": ([fetched(-60)], LONG, WARNED),
    "fetched at the start": ([fetched(4)], LONG, WARNED),
    "fetched again by the restart": ([fetched(4, gone=143), fetched(143)], LONG, WARNED),
    "written again while it trained": ([fetched(4, gone=60), fetched(60)], LONG, {}),
    "named as the best": ([fetched(4, is_best=True)], LONG, {}),
    "with a number": ([saved(4, name="weights/7.pt", step=7, role=Role.WEIGHTS)], LONG, {}),
    "a state": ([saved(4, name="weights/model.pt", role=Role.STATE)], LONG, {}),
    "no attempt ran long enough to save": ([fetched(4)], [attempt(0, 25), attempt(30, restart_count=1)], {}),
}


@pytest.mark.parametrize(("files", "attempts", "expected"), FETCHED.values(), ids=FETCHED)
def test_a_restart_of_a_job_that_only_fetched_weights_may_have_lost_work(files, attempts, expected):
    assert judge(found_by_search(files, now=150, attempts=attempts), 150) == expected
    assert judge(history(checkpoints=files, now=150, attempts=attempts), 150) == {}  # it is where the job says it is
