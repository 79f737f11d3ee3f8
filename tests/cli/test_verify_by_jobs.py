"""`ckptd verify` where the site lets jobs of the owners read the checkpoints."""

import json
import os
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from ckptd import cli
from ckptd.checkpoints.executor import VerificationRequest
from ckptd.checkpoints.verify_jobs.job_executor import JobExecutor, JobLimits
from ckptd.cli import job_verification, progress_bar, reading_command, reading_progress
from ckptd.core.model import CheckpointState
from ckptd.core.verification.ticket import UNWATCHED_AFTER
from ckptd.service.build_verification import DEADLINE
from cli.six_checkpoints import EPOCHS, trained_shop
from support.flipped_byte import flip_a_byte
from support.forked_agent import start_agent
from support.job_agent import JobAgent

SETTINGS = '[verify_jobs]\npartition = "main"\n'


@pytest.fixture
def shop():
    with trained_shop() as shop:
        add_settings(shop, SETTINGS)
        yield shop


@pytest.fixture
def jobs(shop, monkeypatch):
    agent = JobAgent(None, shop.store.verification_tickets, CheckpointState.COMPLETE)

    def start(*arguments, **options):
        agent.inner = start_agent(*arguments, **options)
        return agent

    monkeypatch.setattr(reading_command, "start_agent", start)
    monkeypatch.setattr(job_verification, "POLL_SECONDS", 0)
    monkeypatch.setattr(job_verification, "MAX_POLLS", 1000)
    return agent


def add_settings(shop, text):
    with (shop.root / "config.toml").open("a") as file:
        file.write(text)


def verify(shop, *words, status=0):
    argv = ["--config", f"{shop.root}/config.toml", "verify", str(shop.directory), *words, "--json"]
    done = CliRunner().invoke(cli.main, argv)
    assert done.exit_code == status, (done.output, done.exception)
    document = json.loads(done.stdout)
    found = {os.path.basename(each["path"]): (each["result"], each["reason"]) for each in document["checkpoints"]}
    return found, document["verified_before"]


def read_record(shop):
    return {each.checkpoint.path.name: each for each in shop.store.checkpoints.read(shop.run)}


def submit_elsewhere(shop, *names):
    """Submit checkpoints as a daemon or another command does."""
    tickets = shop.store.verification_tickets
    executor = JobExecutor(
        agent=JobAgent(None, tickets),
        tickets=tickets,
        limits=JobLimits(),
        deadline=DEADLINE,
        read_time=lambda: datetime.now(UTC),
    )
    known = read_record(shop)
    request = VerificationRequest(shop.run, tuple(known[name].checkpoint for name in names), datetime.now(UTC))
    return executor.submit(request)


def test_one_job_reads_all_checkpoints_of_a_run_and_its_word_is_recorded_apart(shop, jobs):
    found, _ = verify(shop)
    assert found == dict.fromkeys(EPOCHS, ("complete", None))
    record = read_record(shop)
    assert all(each.owner_verified_at and each.verified_full_at is None for each in record.values())
    assert len(jobs.submitted) == 1
    assert verify(shop) == ({}, 6)
    assert shop.store.verification_tickets.list_runs(shop.run.cluster) == frozenset()


def test_what_a_job_calls_damaged_is_printed_with_its_reason_and_changes_no_state(shop, jobs):
    jobs.verdict = CheckpointState.DAMAGED
    found, _ = verify(shop, status=1)
    assert found == dict.fromkeys(EPOCHS, ("damaged", "a block of zeros"))
    assert {each.checkpoint.state for each in read_record(shop).values()} == {CheckpointState.COMPLETE}


def test_this_node_reads_when_it_is_told_to(shop, jobs):
    flip_a_byte(shop.directory / EPOCHS[2])
    shop.wait(10)
    shop.look()
    found, _ = verify(shop, "--here", status=1)
    assert [name for name, (result, _) in found.items() if result == "damaged"] == [EPOCHS[2]]
    assert jobs.submitted == []


def test_without_an_allocation_nothing_is_read_and_the_reason_is_printed(shop, jobs):
    jobs.refusal = "user alice has no association with account storage"
    found, _ = verify(shop, status=1)
    assert {result for result, _ in found.values()} == {"unknown"}
    assert all(jobs.refusal in reason for _, reason in found.values())


def test_without_an_allocation_this_node_reads_where_the_site_says_so(shop, jobs):
    add_settings(shop, "fallback = true\n")
    jobs.refusal = "user alice has no association with account storage"
    found, _ = verify(shop)
    assert {result for result, _ in found.values()} == {"complete"}
    assert all(each.verified_full_at for each in read_record(shop).values())


def test_a_ticket_that_nobody_follows_is_followed_and_only_the_rest_submitted(shop, jobs):
    left = submit_elsewhere(shop, *EPOCHS[:2])
    found, _ = verify(shop)
    assert set(found) == set(EPOCHS)
    assert len(jobs.submitted) == 1
    assert left not in jobs.submitted
    assert shop.store.verification_tickets.read(left) is None


def test_a_run_that_another_command_verifies_is_left_to_it(shop, jobs):
    ticket = submit_elsewhere(shop, EPOCHS[0])
    shop.store.verification_tickets.watch([ticket], datetime.now(UTC) - UNWATCHED_AFTER + timedelta(minutes=1))
    found, _ = verify(shop, status=1)
    assert {reason for _, reason in found.values()} == {job_verification.ELSEWHERE}
    assert shop.store.verification_tickets.read(ticket) is not None
    assert jobs.submitted == []


def test_a_terminal_shows_the_bytes_that_were_read_until_all_are(shop, jobs, monkeypatch):
    moves = []
    monkeypatch.setattr(progress_bar, "show", lambda: nullcontext(lambda done, total: moves.append((done, total))))
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(reading_progress, "sys", SimpleNamespace(stdout=terminal, stderr=terminal))
    verify(shop)
    total = sum(each.checkpoint.size_bytes for each in read_record(shop).values())
    assert (moves[0], moves[-1]) == ((0, total), (total, total))
    assert moves == sorted(moves)
    assert len(set(moves)) == 1 + len(EPOCHS)
