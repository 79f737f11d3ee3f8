"""Which jobs are expected to save because ckptd sends them the signal that they declare."""

from dataclasses import replace
from datetime import timedelta

from ckptd.core.job_actions import action_policy
from ckptd.core.job_actions.action_policy import ActionKind, ActionPermits
from ckptd.core.model import Severity
from ckptd.core.model.records import AuditEntry
from steps.replayed_fleet import minute
from support.queue_facts import CLUSTER, RUN, at, make_checkpoint, make_job

PERMITS = ActionPermits(partitions={ActionKind.SIGNAL: ("gpu",)})
JOB = make_job(1, partition="gpu")


def test_a_signal_is_counted_on_until_it_is_on_record_that_it_could_not_be_sent(lives):
    service = lives(0)
    service.parts.agent.user_settings = {"signal": "USR1"}
    service.parts.agent.checkpoints = (make_checkpoint(written=10, step=5, epoch=None),)
    assert service.run(1, JOB).context.signalled == {}  # the site does not send any
    service.parts = replace(service.parts, permits=PERMITS)
    assert service.run(12, JOB).context.signalled == {1: timedelta(minutes=1)}
    near = service.run(58.5, JOB)
    (act,) = action_policy.plan([near], {}, PERMITS, at(58.5), loop_rule=lambda _: None)
    number = service.parts.store.audit.record(
        AuditEntry(
            cluster=CLUSTER, actor="actions", action="signal-job", target="job 1", run=RUN, plan_id=act.name,
            begun_at=at(58.5),
        )
    )  # fmt: skip
    assert service.run(58.6, JOB).context.signalled.keys() == {1}
    service.parts.store.audit.finish(number, "failed: scancel ended with 1", at(58.7))
    assert service.run(58.8, JOB).context.signalled == {}


def test_a_job_that_asks_for_a_signal_before_its_limit_may_save_nothing_until_then(fleet):
    script = "#!/bin/bash\n#SBATCH --signal=B:USR1@300\npython train.py --checkpoint-dir ck\n"
    fleet.source.read_batch_script = lambda job, is_urgent=False: script if job.job_id == 1 else "#!/bin/bash\n"
    fleet.parts = replace(fleet.parts, reads_batch_scripts=True)
    limit = {"time_limit": timedelta(minutes=160), "ends_at": minute(160), "comment": "ckpt=ck"}
    jobs = [fleet.job(1, **limit), fleet.job(2, name="other", **{**limit, "comment": "ckpt=other"})]
    fleet.run(1, *jobs)
    fleet.run(50, *jobs)
    found = {flag.finding.job_id: flag.finding for flag in fleet.parts.store.flags.list_open("c1")}
    assert {job_id: each.rule for job_id, each in found.items()} == dict.fromkeys((1, 2), "no-checkpoint-yet")
    assert [found[job_id].severity for job_id in (1, 2)] == [Severity.INFO, Severity.WARNING]
    fleet.run(159, *jobs)
    found = {flag.finding.job_id: flag.finding for flag in fleet.parts.store.flags.list_open("c1")}
    assert found[1].severity is Severity.WARNING
