"""Comparisons of copies by jobs of the owners: the daemon records what they found, and retention removes no more."""

import os
import shutil
from dataclasses import replace

import pytest

from ckptd.checkpoints.executor import LocalExecutor, VerifyPlace
from ckptd.checkpoints.verify_jobs.job_executor import JobExecutor, JobLimits
from ckptd.cli.interruption import Interruption
from ckptd.cli.job_verification import JobVerification
from ckptd.cli.run_comparison import ComparisonWork
from ckptd.core.model import CheckpointState, RunKey
from ckptd.service.build_verification import DEADLINE
from ckptd.steps import follow_verifications, record_comparison
from ckptd.steps.prune import planning
from support.flipped_byte import flip_a_byte
from support.job_agent import JobAgent
from support.prune_facts import CLUSTER, UID, own, workshop

NEWEST = "epoch_3.npz"


@pytest.fixture
def shop():
    """A run of three saves, each copied to an archive."""
    with workshop() as shop:
        archive(shop).mkdir()
        own(archive(shop))
        shop.start_job(comment="ckpt=ckpts:archive")
        for epoch in (1, 2, 3):
            shop.train([epoch])
            copy(shop, f"epoch_{epoch}.npz")
            shop.wait(10)
            shop.look()
        shop.wait(90)
        yield shop


@pytest.fixture
def jobs(shop):
    agent = JobAgent(shop.agent, shop.store.verification_tickets, CheckpointState.COMPLETE)
    executor = JobExecutor(
        agent=agent,
        tickets=shop.store.verification_tickets,
        limits=JobLimits(),
        deadline=DEADLINE,
        read_time=lambda: shop.now,
    )
    shop.parts = replace(shop.parts, job_executor=executor, verify_place=VerifyPlace.JOBS)
    return agent


def archive(shop):
    return shop.root / "home/archive"


def copy(shop, name):
    shutil.copy2(shop.directory / name, archive(shop) / name)
    own(archive(shop) / name)


def submit(shop):
    """Submit a comparison as a command does that is killed then."""
    [wanted] = record_comparison.list_wanted(shop.store, CLUSTER, [shop.run])
    ticket = shop.parts.job_executor.submit(record_comparison.make_request(shop.run, [wanted], shop.now))
    assert isinstance(ticket, str)


def damage_copy(shop):
    flip_a_byte(archive(shop) / NEWEST)
    shop.wait(10)
    shop.look()


def follow(shop):
    return follow_verifications.run(shop.parts, shop.state, shop.now).lines


def read_comparisons(shop):
    found = shop.store.checkpoints.read(RunKey(CLUSTER, UID, str(archive(shop))))
    return {each.checkpoint.path.name: each.comparisons[-1] for each in found if each.comparisons}


def test_the_daemon_records_what_a_job_found_after_its_command_was_killed(shop, jobs):
    damage_copy(shop)
    submit(shop)
    (line,) = follow(shop)
    assert "verification job 7 compared 1 copies of checkpoints" in line.text
    (name, known), *others = read_comparisons(shop).items()
    assert (name, known.differing_file, known.is_by_owner, others) == (NEWEST, NEWEST, True, [])
    assert known.original == str(shop.directory / NEWEST)
    assert shop.store.verification_tickets.list_unwatched(CLUSTER, shop.now) == ()


def test_what_a_job_read_is_not_recorded_about_a_copy_that_was_replaced_since(shop, jobs):
    damage_copy(shop)
    submit(shop)
    copy(shop, NEWEST)
    shop.wait(10)
    shop.look()
    follow(shop)
    assert read_comparisons(shop) == {}


def test_what_a_job_read_is_not_recorded_about_a_copy_that_is_deleted(shop, jobs):
    submit(shop)
    (archive(shop) / NEWEST).unlink()
    shop.wait(10)
    shop.look()
    (line,) = follow(shop)
    assert "compared 0 copies" in line.text


def run_command(shop, wanted):
    command = JobVerification(
        store=shop.store,
        work=ComparisonWork(shop.store),
        executor=shop.parts.job_executor,
        fallback=None,
        interruption=Interruption(),
        show=lambda *_: None,
    )
    return [(each.copy.path.name, each.result) for each in command.read_all(wanted)]


def list_wanted(shop, **options):
    found = (each.leave_out_same(**options) for each in record_comparison.list_wanted(shop.store, CLUSTER, [shop.run]))
    return [each for each in found if each.copied.copies]


def test_a_command_lets_a_job_compare_and_this_node_can_still_read_itself(shop, jobs):
    wanted = list_wanted(shop, is_owner_believed=True)
    assert run_command(shop, wanted) == [(NEWEST, "same")]
    assert list_wanted(shop, is_owner_believed=True) == []
    [again] = list_wanted(shop, is_owner_believed=False)
    record_comparison.compare_now(shop.store, LocalExecutor(shop.agent, DEADLINE), again, shop.now)
    assert list_wanted(shop, is_owner_believed=False) == []


def test_a_comparison_that_nobody_follows_is_followed_by_the_next_command(shop, jobs):
    submit(shop)
    assert run_command(shop, list_wanted(shop, is_owner_believed=True)) == [(NEWEST, "same")]
    assert len(jobs.submitted) == 1


def test_an_owner_who_may_submit_no_job_gets_the_reason(shop, jobs):
    jobs.refusal = "user alice has no association with account storage"
    wanted = list_wanted(shop, is_owner_believed=True)
    assert run_command(shop, wanted) == [(NEWEST, "unknown")]
    assert read_comparisons(shop) == {}


def plan(shop):
    keys = [shop.run, RunKey(CLUSTER, UID, str(archive(shop)))]
    facts = planning.read_facts(shop.store, CLUSTER, shop.site, keys)
    return [
        (run.skipped, [(each.path, each.is_kept, each.reasons) for each in run.decisions])
        for run in planning.plan(facts, shop.now).runs
    ]


def test_retention_plans_the_same_whatever_a_comparison_says(shop, jobs):
    damage_copy(shop)
    before = plan(shop)
    assert not all(is_kept for _, decisions in before for _, is_kept, _ in decisions)
    submit(shop)
    follow(shop)
    assert read_comparisons(shop)[NEWEST].differing_file
    assert plan(shop) == before
    assert os.path.exists(archive(shop) / NEWEST)
