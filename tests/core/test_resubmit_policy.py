"""Why a run that its limit ended stands still, and what its user hears of that."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import health
from ckptd.core.health.not_resubmitted import NotResubmitted
from ckptd.core.health.resubmitted import WasResubmitted
from ckptd.core.job_actions import action_policy, resubmit_policy, sbatch_command
from ckptd.core.job_actions.action_policy import ActionKind, ActionPermits
from ckptd.core.job_actions.resubmit_policy import TimedOutRun
from ckptd.core.model import EndCause, Flag, JobState, Resubmission, ResubmitRefusal, Severity, Unknown, UserSettings
from ckptd.core.notices.topic import topics_of
from core.histories import at, attempt, history, job, saved, text_of
from support.run_builder import change

PERMITS = ActionPermits(partitions={ActionKind.RESUBMIT: ("gpu*",)}, max_resubmits=4)
ENDED = replace(attempt(0, 60, cause=EndCause.TIME_LIMIT), state=JobState.TIMEOUT, partition="gpu1")
JOB = job(partition="gpu1", state=JobState.TIMEOUT)
NAME = f"resubmit-job/1@{ENDED.job.first_seen_at.timestamp():.6f}/0"
WISHES = UserSettings(is_resubmitted=True, max_resubmits=3)
NEXT = replace(attempt(61, 70, job_id=2, cause=EndCause.FAILURE))


def ended_run(*, saves=((10, 1), (50, 5)), **changes):
    recorded = [saved(minute, step=step) for minute, step in saves]
    run = history(now=61, jobs=(), attempts=[ENDED], checkpoints=recorded)
    return change(run, **{"user_settings": WISHES, **changes})


def finished(**changes):
    facts = {"is_final": True, "has_successor": False, "resubmit_count": 0}
    return TimedOutRun(**{"job": JOB, "attempt": ENDED, **facts, **changes})


def stand(run=None, permits=PERMITS, **changes):
    return action_policy.find_standing(run or ended_run(), finished(**changes), permits)


STANDS = {
    "the site does not do it": ({"permits": ActionPermits(partitions={})}, "in partition gpu1"),
    "no maximum": ({"run": ended_run(user_settings=replace(WISHES, max_resubmits=0))}, "max_resubmits is missing"),
    "as often as wished": ({"resubmit_count": 3}, "this run has reached the maximum that max_resubmits allows (3)"),
    "as often as the site allows": (
        {"run": ended_run(user_settings=replace(WISHES, max_resubmits=9)), "resubmit_count": 4},
        "this run has reached the maximum that the site allows (4)",
    ),
    "nothing saved": ({"run": ended_run(saves=())}, "saved no checkpoint with more progress"),
    "heterogeneous": ({"job": replace(JOB, het_job_id=1)}, "heterogeneous"),
    "no script": ({"job": replace(JOB, is_batch=False)}, "not a batch job"),
    "refused": ({"outcomes": {NAME: "failed: sbatch ended with 1: no"}}, "sbatch ended with 1: no"),
    "cut off": ({"outcomes": {NAME: "cut off: it is not known to have been done"}}, "cut off"),
    "another job waits": ({"has_successor": True}, "another job of yours"),
    "never read": ({"is_final": False, "is_late": True}, "could not be read completely"),
    "put off for too long": ({"is_late": True}, "within an hour"),
    "it waited for in vain": ({"has_successor": True, "is_late": True}, "another job of yours"),
}


@pytest.mark.parametrize(("case", "reason"), STANDS.values(), ids=STANDS)
def test_a_run_stands_still_for_a_reason(case, reason):
    found = stand(**case)
    assert isinstance(found, ResubmitRefusal)
    assert reason in found.reason
    assert found.is_waited_for is ("another" in reason)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param({}, id="it is to be submitted"),
        pytest.param({"is_final": False}, id="its last saves are not known yet"),
        pytest.param({"run": ended_run(user_settings=UserSettings())}, id="nobody asked for it"),
        pytest.param({"run": ended_run(jobs=(job(2),))}, id="a job of it is there"),
        pytest.param({"run": ended_run(attempts=(ENDED, NEXT)), "resubmit_count": 3}, id="it went on and ended since"),
        pytest.param({"attempt": replace(ENDED, state=JobState.FAILED), "resubmit_count": 3}, id="it failed"),
        pytest.param({"outcomes": {NAME: "submitted job 7"}, "resubmit_count": 3}, id="submitted"),
        pytest.param({"outcomes": {NAME: None}, "resubmit_count": 3}, id="being submitted"),
    ],
)
def test_otherwise_nothing_is_said(case):
    assert stand(**case) is None


def judge(run, minute=61):
    return health.evaluate(run, [NotResubmitted(), WasResubmitted()], at(minute), **BOUNDS)


BOUNDS = {"max_age": timedelta(minutes=5), "min_job_duration": timedelta(0)}
FLAGGED = frozenset({(NotResubmitted.name, 1)})
UNKNOWN = Unknown(what="resubmission", reason="long ago")


def test_its_user_hears_why_and_from_what_to_go_on():
    (found,) = judge(ended_run(standing=ResubmitRefusal(JOB, "sbatch said:\nno"))).findings
    assert (found.severity, found.job_id, found.audience) == (Severity.WARNING, 1, ("user",))
    assert "did not resubmit it: sbatch said:\\nno." in text_of(found)
    assert (found.evidence["newest_good_step"], found.evidence["newest_good"][-9:]) == (5, "step-5.pt")


def test_while_another_job_may_go_on_with_it_that_is_no_warning():
    (found,) = judge(ended_run(standing=ResubmitRefusal(JOB, "x", is_waited_for=True))).findings
    assert (found.severity, found.audience) == (Severity.INFO, ())


@pytest.mark.parametrize(
    ("run", "minute", "stays"),
    [
        pytest.param(ended_run(standing=UNKNOWN, flagged=FLAGGED), 61, True, id="nothing began since"),
        pytest.param(ended_run(standing=UNKNOWN), 61, False, id="nothing was said"),
        pytest.param(ended_run(flagged=FLAGGED), 61, False, id="it was submitted after all"),
        pytest.param(ended_run(standing=UNKNOWN, flagged=FLAGGED, attempts=(ENDED, NEXT), polled_at=at(71)), 71, False,
                     id="it went on"),
        pytest.param(ended_run(standing=UNKNOWN, flagged=FLAGGED, polled_at=at(7 * 24 * 60 + 61)), 7 * 24 * 60 + 61,
                     False, id="a week ago"),
        pytest.param(ended_run(standing=None, flagged=FLAGGED, polled_at=None), 61, True, id="Slurm is silent"),
    ],
)  # fmt: skip
def test_what_was_said_of_it_stays_until_it_goes_on(run, minute, stays):
    found = judge(run, minute)
    assert (NotResubmitted.name in found.undecided, found.findings) == (stays, ())


def test_the_user_hears_of_a_job_that_ckptd_submitted_and_from_where_it_goes_on():
    own = job(2, comment=f"x ckptd-resubmit=2.{sbatch_command.name_end(ENDED)}")
    outcomes = {NAME: f"submitted job 2; {resubmit_policy.WITHOUT_LINE}", "other": "failed: x", "third": None}
    saves = [saved(10, step=1), saved(50, step=5), saved(80, step=9)]
    run = history(now=90, jobs=[own], attempts=[ENDED, attempt(70, job_id=2)], checkpoints=saves)
    told = resubmit_policy.list_resubmitted(run, outcomes)
    assert told == {2: Resubmission(2, 1, has_submit_line=False)}
    (found,) = judge(change(run, resubmitted=told), 90).findings
    assert (found.rule, found.severity, found.job_id) == ("resubmitted", Severity.INFO, 2)
    assert (found.evidence["goes_on_from"], found.evidence["ended_job"]) == ("step 5", 1)
    assert "job 1 reached its time limit" in text_of(found)
    assert "accounting has no submit line" in text_of(found)


def test_a_mark_that_belongs_to_no_end_of_the_run_says_nothing():
    for comment in ("", "ckptd-resubmit=2.0123456789abcdef"):
        run = history(jobs=[job(2, comment=comment)], attempts=[ENDED, attempt(70, job_id=2)])
        assert resubmit_policy.list_resubmitted(run, {}) == {}


def test_each_end_is_news_of_its_own():
    (found,) = judge(ended_run(standing=ResubmitRefusal(JOB, "x"))).findings
    later = replace(found, job_id=9)
    flags = [
        Flag(finding=each, opened_at=at(61))
        for each in (found, later, replace(later, rule="at-risk"), replace(found, rule="at-risk"))
    ]
    first, second, third, fourth = (topics_of(flag, None) for flag in flags)
    assert not set(first) & set(second)
    assert third[0] == fourth[0]
