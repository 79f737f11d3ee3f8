"""Retention where jobs of the owners verify: it waits for none of them, and their word never moves its floor."""

from dataclasses import replace

import pytest

from ckptd.checkpoints.agent import trash_client
from ckptd.checkpoints.executor import VerifyPlace
from ckptd.checkpoints.verify_jobs.job_executor import JobExecutor, JobLimits
from ckptd.core.model import CheckpointState, Level, Unknown
from ckptd.core.retention import KeepLast
from ckptd.core.runs.progress import CheckpointChanges
from ckptd.service.build_verification import DEADLINE
from ckptd.steps import follow_verifications
from ckptd.steps.prune import step
from support.job_agent import JobAgent
from support.prune_facts import EPOCHS, make_policy, make_site

COMPLETE, DAMAGED = CheckpointState.COMPLETE, CheckpointState.DAMAGED


@pytest.fixture
def jobs(shop):
    shop.site = make_site(shop.root, make_policy(verify=Level.FULL))
    return use_jobs(shop)


def use_jobs(shop, place=VerifyPlace.JOBS):
    agent = JobAgent(shop.agent, shop.store.verification_tickets)
    executor = JobExecutor(
        agent=agent,
        tickets=shop.store.verification_tickets,
        limits=JobLimits(),
        deadline=DEADLINE,
        read_time=lambda: shop.now,
    )
    shop.parts = replace(shop.parts, job_executor=executor, verify_place=place)
    return agent


def follow(shop):
    return follow_verifications.run(shop.parts, shop.state, shop.now)


def test_a_run_waits_for_its_job_and_everything_else_goes_on(shop, jobs):
    for _ in range(3):
        assert shop.act() == step.PruneResult()
        follow(shop)
        shop.wait(5)
    assert len(jobs.submitted) == 1
    jobs.verdict = COMPLETE
    (line,) = follow(shop).lines
    assert "verification job 7 read 1 checkpoints" in line.text
    newest = shop.record()["epoch_6.npz"]
    assert (newest.owner_verified_at, newest.verified_full_at) == (shop.now, None)
    assert shop.act().moved_count == 4
    assert shop.store.verification_tickets.list_runs(shop.run.cluster) == frozenset()


def test_a_ticket_outlives_the_daemon_that_submitted_it(shop, jobs):
    shop.act()
    after = use_jobs(shop)
    after.verdict = COMPLETE
    shop.wait(5)
    follow(shop)
    assert shop.record()["epoch_6.npz"].owner_verified_at == shop.now
    assert after.submitted == []


def test_what_this_node_verified_is_kept_whatever_a_job_says_of_a_newer_one(shop):
    known = shop.record()["epoch_3.npz"]
    (found,) = trash_client.verify(shop.agent, shop.run, [known.checkpoint], shop.now, DEADLINE)
    changed = replace(known, checkpoint=replace(known.checkpoint, level=found.level), verified_full_at=shop.now)
    shop.store.checkpoints.record_changes(shop.run, CheckpointChanges(changed=(changed,)))
    shop.site = make_site(shop.root, make_policy(KeepLast(1), verify=Level.FULL))
    agent = use_jobs(shop)
    agent.verdict = COMPLETE
    shop.act()
    follow(shop)
    shop.wait(5)
    assert shop.act().moved_count > 0
    assert shop.names() == ["epoch_3.npz", "epoch_6.npz"]
    assert shop.record()["epoch_6.npz"].verified_full_at is None


def report_damage(shop, agent):
    agent.verdict = DAMAGED
    shop.act()
    follow(shop)
    shop.wait(5)
    assert shop.record()["epoch_6.npz"].owner_damage == "a block of zeros"
    assert shop.record()["epoch_6.npz"].checkpoint.state is COMPLETE


def test_a_damage_that_a_job_reports_stops_removals_until_this_node_has_read_the_file(shop, jobs, monkeypatch):
    report_damage(shop, jobs)
    shop.site = make_site(shop.root, make_policy())
    with monkeypatch.context() as patch:
        silence = Unknown(what="agent", reason="it did not answer in time")
        patch.setattr(trash_client, "verify", lambda *_: silence)
        assert shop.act().moved_count == 0
    assert shop.names() == EPOCHS
    shop.wait(61)
    assert shop.act().moved_count == 4
    newest = shop.record()["epoch_6.npz"]
    assert (newest.owner_damage, newest.verified_full_at) == (None, shop.now)


def test_an_owner_without_an_allocation_is_asked_for_a_job_once_an_hour(shop, jobs):
    jobs.refusal = "user alice has no association with account storage"
    for _ in range(3):
        assert shop.act() == step.PruneResult()
        shop.wait(5)
    assert len(jobs.submitted) == 1
    shop.wait(60)
    shop.act()
    assert len(jobs.submitted) == 2


def test_this_node_verifies_for_an_owner_without_an_allocation_only_where_the_site_says_so(shop):
    shop.site = make_site(shop.root, make_policy(verify=Level.FULL))
    use_jobs(shop, VerifyPlace.JOBS_OR_HERE).refusal = "no association"
    assert shop.act().moved_count == 4
    assert shop.record()["epoch_6.npz"].verified_full_at == shop.now
