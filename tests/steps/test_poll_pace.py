"""How often Slurm is polled while it answers slowly or refuses, counted over half an hour."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.model import Unknown
from ckptd.service.step_table import make_runner
from ckptd.slurm import failure_reasons
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.steps import poll
from ckptd.steps.decision_slice import DecisionSlice
from ckptd.steps.snapshots import PollPace
from steps.daemon_lives import Cluster, Disk, Service
from support.deciding import Counted, Deciding
from support.queue_facts import at, look, make_job

HALF_AN_HOUR = 30


class SlowCluster(Cluster):
    """Answers after some seconds of the test's clock."""

    def __init__(self):
        super().__init__()
        self.now, self.seconds, self.reason, self.count = at(0), 0, None, 0

    def read_queue(self, now):
        self.count += 1
        self.now += timedelta(seconds=self.seconds)
        if self.reason is not None:
            return failure_reasons.make_unknown("queue", self.reason, "squeue took over 30 s")
        return look((now - at(0)) / timedelta(minutes=1))


@pytest.fixture
def life(tmp_path):
    cluster = SlowCluster()
    service = Service(f"sqlite:///{tmp_path}/ckptd.sqlite3", cluster, Disk(), 0)
    service.parts = replace(service.parts, runner=make_runner(read_time=lambda: cluster.now))
    yield service, cluster
    service.parts.store.close()


def run_minutes(life, first, last):
    """Run the step each minute, as the schedule does; return the number of polls and the lines of the log."""
    service, cluster = life
    before, lines = cluster.count, []
    for minute in range(first, last):
        cluster.now = at(minute)
        lines += [line.text for line in poll.run(service.parts, service.state, cluster.now).lines]
    return cluster.count - before, lines


@pytest.mark.parametrize(
    ("seconds", "reason", "polls"),
    [
        (1, None, 30),
        (12, None, 30),
        (20, None, 15),  # every 100 s, on a schedule of minutes
        (29, None, 10),
        (30, FailureReason.TIMED_OUT, 7),  # after 2, 6, 11, 16 ... minutes
        (1, FailureReason.RATE_LIMITED, 7),
        (1, FailureReason.DOWN, 30),  # does not burden it
    ],
)
def test_polls_become_rare_while_slurm_is_slow_or_refuses(life, seconds, reason, polls):
    _, cluster = life
    cluster.seconds, cluster.reason = seconds, reason
    assert run_minutes(life, 0, HALF_AN_HOUR)[0] == polls


def test_the_log_says_when_polls_become_rare_and_when_they_are_regular_again(life):
    _, cluster = life
    cluster.seconds = 20
    assert run_minutes(life, 0, 10)[1] == ["Slurm took 20 s for a poll: the next one is in 100 s, to spare slurmctld"]
    cluster.seconds = 1
    count, lines = run_minutes(life, 10, 20)
    assert (count, lines) == (10, ["Slurm answers in time again: polling every 60 s"])


@pytest.mark.parametrize(
    ("seconds", "reason", "age"),
    [
        (1, None, 180),  # three intervals
        (29, None, 290),  # two polls at this pace
        (30, FailureReason.TIMED_OUT, 180),  # without an answer, its pace is unknown
        (1, FailureReason.DOWN, 180),
    ],
)
def test_rules_judge_by_polls_as_old_as_the_pace_makes_them(life, seconds, reason, age):
    service, cluster = life
    cluster.seconds, cluster.reason = seconds, reason
    run_minutes(life, 0, 10)
    longest = service.state.latest(PollPace).longest_age(timedelta(seconds=180))
    assert longest == timedelta(seconds=age)


def test_a_slow_poll_makes_no_run_be_evaluated_before_the_next_one(tmp_path):
    rule = Counted()
    twin = Deciding(tmp_path, forgets=False, rules=(rule,))
    twin.parts = replace(twin.parts, max_poll_age=timedelta(minutes=2))
    jobs = [make_job(1)]
    twin.poll(0, jobs)
    twin.locate(0, 1)
    twin.state.publish(PollPace(timedelta(minutes=4)))  # a poll takes 48 s
    twin.poll(0, jobs)
    for minute in range(20):
        if minute % 4 == 0:
            twin.poll(minute, jobs)
        twin.decide(minute)
        [known] = twin.state.slices[DecisionSlice].evaluated.by_run.values()
        assert not known.evaluation.undecided
    assert len(rule.asked) == 1
    twin.store.close()


def test_a_poll_that_a_removal_needs_is_not_put_off(life):
    service, cluster = life
    cluster.seconds = 29
    run_minutes(life, 0, 1)
    service.parts.runner.poll(service.parts, service.state)
    assert cluster.count == 2


def test_a_clock_that_was_set_back_does_not_stop_the_polls(life):
    service, cluster = life
    cluster.seconds = 29
    cluster.now = at(60)
    poll.run(service.parts, service.state, at(60))
    cluster.now = at(0)
    poll.run(service.parts, service.state, at(0))
    assert cluster.count == 2


def test_slurms_words_for_its_rate_limit_are_known():
    answer = failure_reasons.classify(
        "queue", 1, "slurm_load_jobs error: Rate limit exceeded, please retry momentarily\n"
    )
    assert isinstance(answer, Unknown)
    assert answer.reason.startswith(FailureReason.RATE_LIMITED)
    assert failure_reasons.asks_for_rest(answer)
