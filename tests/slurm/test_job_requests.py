"""Slurm is asked about single jobs at a limited rate, and once for all tasks of an array."""

import pytest

from ckptd.core.model import Unknown
from ckptd.slurm import failure_reasons
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.job_requests import AT_ONCE, KEPT_LETTERS, KEPT_SECONDS, MAX_DEBT, PER_SECOND, JobRequests
from slurm import stand_in
from support.queue_facts import at, make_job

SCRIPT = "#!/bin/sh\npython train.py\n"
DOWN = Unknown(what="batch script", reason=str(FailureReason.DOWN))


class Slurm:
    """Counts the requests to it, at a time that the test sets."""

    def __init__(self, answer=SCRIPT):
        self.seconds = 0.0
        self.count = 0
        self.answer = answer
        self.requests = JobRequests(lambda: self.seconds)

    def read_script(self, job, *, is_urgent=False):
        return self.requests.read_script(job, self._ask, is_urgent=is_urgent)

    def read_mail_user(self):
        return self.requests.ask("mail user", self._ask)

    def _ask(self):
        self.count += 1
        return self.answer


@pytest.fixture
def slurm():
    return Slurm()


def task(number, **changes):
    return make_job(1000 + number, array_job_id=1000, array_task_id=number, **changes)


def test_400_tasks_of_an_array_are_one_request(slurm):
    assert {slurm.read_script(task(number)) for number in range(400)} == {SCRIPT}
    assert slurm.count == 1
    slurm.read_script(task(1, uid=2000))  # the number of another user's array, after Slurm lost its state
    assert slurm.count == 2


def test_a_job_that_reuses_an_id_of_the_same_user_has_a_script_of_its_own(slurm):
    slurm.read_script(make_job(7))
    slurm.read_script(make_job(7, restart_count=1, submitted_at=at(30)))  # a requeue, which keeps the script
    assert slurm.count == 1
    slurm.answer = "another"
    assert slurm.read_script(make_job(7, submitted_at=at(60))) == "another"
    assert slurm.read_script(make_job(7, submitted_at=at(60))) == "another"
    assert slurm.count == 2


def test_a_real_program_runs_once_for_all_tasks(programs_in):
    directory, make = programs_in
    source = make(scontrol={"answers": {"write batch_script": SCRIPT}})
    assert {source.read_batch_script(task(number)) for number in range(20)} == {SCRIPT}
    assert [argv[:3] for _, argv, _ in stand_in.read_calls(directory)] == [["write", "batch_script", "1000"]]


def test_a_minute_of_single_jobs_has_no_more_requests_than_slurms_own_limiter_permits(slurm):
    answers = []
    for second in range(60):
        slurm.seconds = float(second)
        answers += [slurm.read_script(make_job(second * 10 + each)) for each in range(10)]
    assert slurm.count == AT_ONCE + 59 * PER_SECOND
    deferred = [answer for answer in answers if failure_reasons.is_deferred(answer)]
    assert len(deferred) == 600 - slurm.count
    assert deferred[0].reason == "deferred: ckptd asks Slurm about at most 2 single jobs a second"


def test_scripts_and_mail_users_share_the_limit(slurm):
    for number in range(AT_ONCE):
        assert slurm.read_script(make_job(number)) == SCRIPT
    assert failure_reasons.is_deferred(slurm.read_mail_user())
    slurm.seconds = 1.0
    assert slurm.read_mail_user() == SCRIPT


def test_urgent_requests_precede_the_others_which_then_wait_longer(slurm):
    for number in range(AT_ONCE):
        slurm.read_script(make_job(number))
    urgent = [slurm.read_script(make_job(100 + number), is_urgent=True) for number in range(2 * MAX_DEBT)]
    assert urgent.count(SCRIPT) == MAX_DEBT
    slurm.seconds = MAX_DEBT / PER_SECOND
    assert failure_reasons.is_deferred(slurm.read_mail_user())
    slurm.seconds += 1 / PER_SECOND
    assert slurm.read_mail_user() == SCRIPT


@pytest.mark.parametrize("answer", [DOWN, "x" * KEPT_LETTERS * 2])
def test_failures_and_very_long_scripts_are_not_kept(answer):
    slurm = Slurm(answer)
    assert [slurm.read_script(task(1)) for _ in range(3)] == [answer] * 3
    assert slurm.count == 3


def test_a_script_is_read_again_after_an_hour_because_job_ids_are_used_again(slurm):
    slurm.read_script(task(1))
    slurm.seconds = KEPT_SECONDS
    slurm.read_script(task(2))
    assert slurm.count == 2
