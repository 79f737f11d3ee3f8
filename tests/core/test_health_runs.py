"""The rules about how often a run saves, about its goal and its requeue, and about jobs in one directory."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.forecast.optimum import daly_optimum, mean_time_between_interruptions
from ckptd.core.health.concurrent_writers import ConcurrentWriters
from ckptd.core.health.not_requeueable import NotRequeueable
from ckptd.core.health.too_frequent import TooFrequent
from ckptd.core.health.too_sparse import TooSparse
from ckptd.core.health.will_not_finish import WillNotFinish
from ckptd.core.model import (
    InterruptionTally,
    JobState,
    UserSettings,
)
from core.histories import RUN, at, history, job, limited, only, saved, text_of
from support.run_builder import change


def unseen_at_first(interval, took, **changes):
    """Looks every half an hour: each second save is only seen when it is complete."""
    given = rhythmic(interval, took, **changes)
    late = [
        replace(each, started_writing_at=None, first_seen_at=each.completed_at + timedelta(minutes=10))
        for each in given.checkpoints[::2]
    ]
    return replace(given, checkpoints=(*late, *given.checkpoints[1::2]))


def rhythmic(interval, took, **changes):
    checkpoints = [saved(number * interval, step=number, took=took) for number in range(1, 10)]
    return history(now=10 * interval, checkpoints=checkpoints, **changes)


@pytest.mark.parametrize(("interval", "took", "holds"), [(10, 1.1, True), (10, 0.9, False), (100, 9, False)])
def test_saving_that_takes_a_tenth_of_the_time_is_too_frequent(interval, took, holds):
    finding = only(TooFrequent(), rhythmic(interval, took), 10 * interval)
    assert bool(finding) == holds
    assert finding is None or finding.evidence["share"] == 0.11


def test_an_open_flag_holds_on_a_little_below_the_threshold():
    given = rhythmic(10, 0.9, flagged=frozenset({("too-frequent", 1)}))
    assert only(TooFrequent(), given, 100)


def test_looks_that_happen_to_see_the_slow_saves_do_not_make_saving_too_frequent():
    checkpoints = [saved(number * 10, step=number, took=5 if number % 5 == 0 else None) for number in range(1, 25)]
    assert only(TooFrequent(), history(now=240, checkpoints=checkpoints), 240) is None


def test_looks_that_come_late_for_a_while_resolve_no_flag():
    given = rhythmic(10, 2)
    unseen = [replace(each, started_writing_at=None) if number % 3 else each
              for number, each in enumerate(given.checkpoints)]  # fmt: skip
    given = replace(given, checkpoints=tuple(unseen))
    assert only(TooFrequent(), given, 100) is None
    held = only(TooFrequent(), change(given, flagged=frozenset({("too-frequent", 1)})), 100)
    assert "Saving checkpoints takes a large share of the run time. Save less" in text_of(held)


def test_saving_never_takes_more_than_all_of_the_time():
    slow = [saved(number * 100, step=number, took=90) for number in range(1, 10)]
    fast = [saved(900 + number * 10, step=9 + number, took=1) for number in range(1, 10)]
    finding = only(TooFrequent(), history(now=1000, checkpoints=[*slow, *fast]), 1000)
    assert finding.evidence["share"] == 1
    assert "Saving checkpoints takes a large share of the run time" in text_of(finding)


def test_rules_call_best_what_ckptd_advises():
    often, rarely = rhythmic(10, 1.1), rhythmic(130, 5, interruptions=SIX_HOURS)
    for rule, given, took in ((TooFrequent(), often, 1.1), (TooSparse(), rarely, 5)):
        mean = mean_time_between_interruptions(given.context.interruptions, 1)
        best = daly_optimum(timedelta(minutes=took), mean)
        assert only(rule, given, 1000).evidence["optimum_seconds"] == round(best.total_seconds())


SIX_HOURS = InterruptionTally(interruption_count=999, observed=timedelta(hours=6 * 999))
SPARSE = {
    "twice the optimum": (rhythmic(58, 5, interruptions=SIX_HOURS), False),
    "more than twice the optimum": (rhythmic(130, 5, interruptions=SIX_HOURS), True),
    "nothing counted yet, few nodes": (rhythmic(120, 5), False),
    "nothing counted yet, thousands of nodes": (rhythmic(120, 0.5, jobs=[job(node_count=8000)]), True),
    "a few interruptions only": (
        rhythmic(400, 5, interruptions=InterruptionTally(interruption_count=10, observed=timedelta(0))),
        False,
    ),
    "rare looks saw the end of its saves": (unseen_at_first(130, 5, interruptions=SIX_HOURS), False),
    "below fifteen minutes": (rhythmic(14, 0.01, interruptions=SIX_HOURS), False),
}


@pytest.mark.parametrize(("given", "holds"), SPARSE.values(), ids=SPARSE)
def test_saving_more_rarely_than_twice_the_optimum_is_too_sparse(given, holds):
    assert bool(only(TooSparse(), given, 1000)) == holds


HOURLY_EPOCHS = [saved(60 * number, epoch=number) for number in range(1, 5)]


GOALS = {
    "no goal": (None, 300, None),
    "it fits": (8, 500, None),
    "it does not fit": (10, 400, 2),
    "it is reached": (4, 250, None),
}


@pytest.mark.parametrize(("goal", "limit", "fits"), GOALS.values(), ids=GOALS)
def test_a_goal_that_does_not_fit_says_how_many_epochs_do(goal, limit, fits):
    given = history(
        now=245, jobs=[limited(limit)], checkpoints=HOURLY_EPOCHS, user_settings=UserSettings(goal_epoch=goal)
    )
    finding = only(WillNotFinish(), given, 245)
    assert (finding.evidence["fits"] if finding else None) == fits
    assert finding is None or f"JobId=1 TimeLimit=+{goal * 60 + 1 - limit}" in text_of(finding)


REQUEUE = {
    "it may be requeued": (job(partition="preempt"), {}, False),
    "its partition preempts": (job(partition="preempt", is_requeueable=False), {}, True),
    "its partition does not": (job(partition="normal", is_requeueable=False), {}, False),
    "preemptions were seen there": (
        job(partition="normal", is_requeueable=False),
        {"is_preempted_there": True},
        True,
    ),
    "it saves nothing": (job(partition="preempt", is_requeueable=False), {"checkpoints": []}, False),
}


@pytest.mark.parametrize(("one", "changes", "holds"), REQUEUE.values(), ids=REQUEUE)
def test_a_job_that_could_go_on_after_a_preemption_should_be_requeued(one, changes, holds):
    given = history(jobs=[one], **{"checkpoints": [saved(10)], **changes})
    assert bool(only(NotRequeueable(partitions=("pre*",)), given, 20)) == holds


WRITERS = {
    "one job": (history(), []),
    "two jobs of one user": (history(jobs=[job(1), job(2)]), [1, 2]),
    "two users": (history(other_writers=((job(7, user="bob", uid=1001), "bob"),)), [1]),
    "the other one waits": (history(jobs=[job(1), job(2, state=JobState.PENDING)]), []),
    "parts of one heterogeneous job": (history(jobs=[job(1, het_job_id=1), job(2, het_job_id=1)]), []),
    "no directory is known": (history(jobs=[job(1), job(2)], key=RUN._replace(directory="job:1@x")), []),
}


@pytest.mark.parametrize(("given", "jobs"), WRITERS.values(), ids=WRITERS)
def test_two_jobs_in_one_directory_are_both_told(given, jobs):
    assert [finding.job_id for finding in ConcurrentWriters().evaluate(given, at(5))] == jobs


def test_the_other_tasks_of_an_array_have_the_names_that_scancel_takes():
    tasks = [job(number, array_job_id=3, array_task_id=number) for number in (1, 2, 3)]
    (finding,) = ConcurrentWriters().evaluate(history(jobs=tasks), at(5))
    named = {finding.evidence["slurm_job"], *finding.evidence["other_jobs"]}
    assert named == {"3_1", "3_2", "3_3"}


def test_thousands_in_one_directory_name_some_of_the_others_and_say_how_many_there_are():
    own = [job(number) for number in range(1, 2001)]
    crowd = history(jobs=own, other_writers=((job(9000, user="bob", uid=1001), "bob"),))
    findings = tuple(ConcurrentWriters().evaluate(crowd, at(5)))
    assert len(findings) == 2000
    for finding in (findings[0], findings[-1]):
        others = finding.evidence["other_jobs"]
        assert len(others) <= 41
        assert (others[-1], str(finding.job_id) in others) == ("9000", False)
        assert (finding.evidence["other_job_count"], finding.evidence["other_users"]) == (2000, ["alice", "bob"])
