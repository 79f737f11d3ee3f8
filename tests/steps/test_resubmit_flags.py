"""What users hear of runs that their limit ended: that they stand still, or that ckptd has submitted them again."""

from dataclasses import replace

import pytest

from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.job_actions import action_policy, sbatch_command
from ckptd.core.job_actions.action_policy import ActionKind, ActionPermits
from ckptd.core.model.records import AuditEntry
from ckptd.core.notices import NoticeMode, NoticePolicy
from ckptd.steps.act import ACTOR
from ckptd.steps.snapshots import RunHistories
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job

PERMITS = ActionPermits(partitions={ActionKind.RESUBMIT: ("*",)})
RUNNING = make_job(1, partition="gpu")
OVER = make_job(1, STATES.TIMEOUT, partition="gpu", ends_at=at(59))


@pytest.fixture
def begin(lives):
    """Begin a life of the daemon that writes to users, where a site allows resubmissions or does not."""

    def begin(minutes, permits=PERMITS):
        service = lives(minutes)
        policy = NoticePolicy(mode=NoticeMode.ON, user_rule="{user}@example.org")
        service.parts = replace(service.parts, permits=permits, notice_policy=policy)
        service.parts.source.read_mail_user = lambda job: None
        return service

    return begin


def said(service):
    flags = service.parts.store.flags.list_open(CLUSTER)
    return {
        flag.finding.rule: (flag.finding.job_id, flag.finding.evidence.get("reason"))
        for flag in flags
        if flag.finding.rule in {"not-resubmitted", "resubmitted"}
    }


def notices(service):
    return sum(service.parts.store.outbox.read_waiting(CLUSTER, service.now).waiting.values())


def times_out(service):
    service.parts.agent.checkpoints = (make_checkpoint(written=10, step=5, epoch=None),)
    service.run(0, RUNNING)
    service.run(12, RUNNING)
    service.run(60, OVER)


def test_a_run_that_stands_still_is_told_until_it_goes_on(begin):
    first = begin(0, ActionPermits(partitions={}))
    times_out(first)
    told = {"not-resubmitted": (1, "the site does not allow ckptd to resubmit jobs in partition gpu")}
    assert said(first) == told
    first.run(59 + 200)
    assert said(first) == told
    second = begin(59 + 300, ActionPermits(partitions={}))
    second.run(59 + 301)
    assert said(second) == told
    second.run(59 + 302, make_job(2, started_at=at(59 + 302)))
    assert said(second) == {}


def act_on(service, outcome):
    finished = service.finished()
    (act,) = action_policy.plan(
        service.state.latest(RunHistories).by_run.values(),
        finished,
        PERMITS,
        service.now,
        loop_rule=lambda _: RestartLoop(),
    )
    entry = AuditEntry(
        cluster=CLUSTER, actor=ACTOR, action="resubmit-job", target="job 1", run=RUN, plan_id=act.name, begun_at=at(61)
    )
    number = service.parts.store.audit.record(entry)
    service.run(62, OVER)
    assert said(service) == {}  # nobody knows yet how it goes
    service.parts.store.audit.finish(number, outcome, at(62))


def test_that_slurm_refused_is_told_by_the_record(begin):
    first = begin(0)
    times_out(first)
    assert said(first) == {}
    act_on(first, "failed: sbatch ended with 1: no")
    second = begin(63)
    before = notices(second)
    second.run(64, OVER)
    assert said(second) == {"not-resubmitted": (1, "sbatch ended with 1: no")}
    assert notices(second) == before + 1


def test_the_job_that_goes_on_is_told(begin):
    first = begin(0)
    times_out(first)
    act_on(first, "submitted job 2")
    mark = f"ckptd-resubmit=1.{sbatch_command.name_end(first.finished()[RUN].attempt)}"
    first.run(64, OVER)
    assert said(first) == {}
    before = notices(first)
    first.run(65, make_job(2, comment=mark, started_at=at(65)))
    assert said(first) == {"resubmitted": (2, None)}
    assert notices(first) == before + 1
