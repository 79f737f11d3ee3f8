"""First scans by jobs on a stand-in for Slurm: the agent submits them, and scans as the owner take their results."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from checkpoints.verify_jobs_site import DEADLINE, USER, MemoryTickets, open_site
from ckptd.checkpoints.agent.scan_client import JobPlaces, JobTasks, ScanLimits, scan_runs
from ckptd.checkpoints.executor import SkippedRequest, TicketState
from ckptd.core.model import Unknown
from ckptd.core.verification.followed_tasks import RESULT_DELAY
from ckptd.core.verification.skip_reasons import SkipReason
from support import starved_agent

NAMES = [f"epoch_{number}.npz" for number in range(1, 7)]


@pytest.fixture
def site(monkeypatch):
    """A user's run, of which each scan reads one file."""
    with open_site(monkeypatch, "scan_beyond = 2\n", starved_agent.start_agent) as site:
        site.save(*NAMES)
        yield site


def scan(site, results=None):
    places = JobPlaces(results={} if results is None else {site.run: results})
    [found] = scan_runs(site.agent, [(site.run, (), None)], ScanLimits(deadline=DEADLINE), datetime.now(UTC), places)
    assert not isinstance(found, Unknown), found
    return found


def make_jobs(site, **limits):
    return site.make_jobs(scan_entries=2, **limits)


def submit(site, executor):
    return executor.submit_scan(site.run, len(NAMES), site.now)


def test_tasks_of_the_owner_read_what_a_scan_left_and_the_next_one_takes_it(site):
    first = scan(site)
    assert (first.unread_count, first.entry_count) == (len(NAMES) - 1, len(NAMES))
    executor = make_jobs(site)
    ticket = submit(site, executor)
    (words,) = site.slurm.list_calls("sbatch")
    assert {"--partition=verify", "--account=storage", "--array=0-2%2", f"--job-name=ckptd-verify-{ticket}"} <= {*words}
    assert site.slurm.list_jobs()[1]["uid"] == USER.pw_uid
    assert executor.follow(ticket) == (TicketState.WAITING, 0, frozenset())
    site.slurm.run_tasks(1, 1)
    assert executor.follow(ticket) == (TicketState.RUNNING, 0, {1})
    site.slurm.run_tasks(1)
    assert executor.follow(ticket) == (TicketState.READY, 0, {0, 1, 2})
    second = scan(site, JobTasks(ticket, (0, 1, 2)))
    assert second.unread_count == 0
    assert {each.path.name: each for each in second.checkpoints} == site.scan()
    assert executor.release(ticket) is None
    assert not site.find_ticket_directory(ticket).exists()
    assert site.tickets.by_name == {}


def test_a_task_that_ends_without_a_result_is_submitted_again(site):
    executor = make_jobs(site)
    ticket = submit(site, executor)
    site.slurm.run_tasks(1, 0, 1)
    site.slurm.set_states(1, t2="NODE_FAIL")
    for _ in range(2):
        executor.follow(ticket)
        site.now += RESULT_DELAY
    assert list(site.slurm.list_jobs()[2]["tasks"]) == ["2"]
    site.slurm.run_tasks(2)
    assert executor.follow(ticket).state is TicketState.READY
    assert scan(site, JobTasks(ticket, (0, 1, 2))).unread_count == 0


def test_a_user_without_an_allocation_gets_no_job(site):
    site.slurm.plan(sacctmgr={"rows": [["physics", "", "low"]]})
    skipped = submit(site, make_jobs(site))
    assert (skipped.reason, site.slurm.list_calls("sbatch")) == (SkipReason.NO_ALLOCATION, [])
    assert site.tickets.by_name == {}


def test_first_scans_count_among_the_jobs_of_their_user(site):
    executor = make_jobs(site, max_open=1)
    submit(site, executor)
    assert submit(site, executor).reason is SkipReason.FULL
    assert executor.submit(site.request(NAMES[0])).reason is SkipReason.FULL
    assert make_jobs(site, max_open=1, tickets=MemoryTickets()).submit_scan(site.run, 9, site.now)


def test_a_job_that_waits_for_too_long_is_given_up(site):
    executor = make_jobs(site, max_wait=timedelta(days=1))
    ticket = submit(site, executor)
    site.now += timedelta(days=2)
    assert executor.follow(ticket).state is TicketState.READY
    assert executor.release(ticket) is None
    assert set(site.slurm.list_jobs()[1]["tasks"].values()) == {"CANCELLED"}


def test_the_result_of_another_ticket_or_of_none_changes_nothing(site):
    executor = make_jobs(site)
    ticket = submit(site, executor)
    site.slurm.run_tasks(1)
    assert scan(site, JobTasks("f" * 16, (0, 1, 2))).unread_count == len(NAMES) - 1
    assert scan(site, JobTasks(ticket, (7,))).unread_count == len(NAMES) - 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of another user")
def test_a_result_that_another_user_left_is_not_read(site):
    executor = make_jobs(site)
    ticket = submit(site, executor)
    site.slurm.run_tasks(1)
    for task in range(3):
        os.chown(site.find_ticket_directory(ticket) / f"result-{task}.json", 0, 0)
    assert scan(site, JobTasks(ticket, (0, 1, 2))).unread_count == len(NAMES) - 1


def test_a_job_for_a_directory_outside_the_roots_is_refused(monkeypatch):
    with open_site(monkeypatch, 'scan_beyond = 2\n[scan]\nallowed_roots = ["/srv"]\n') as site:
        site.save(*NAMES)
        skipped = submit(site, make_jobs(site))
        assert isinstance(skipped, SkippedRequest)
        assert skipped.reason is SkipReason.REFUSED
        assert site.slurm.list_calls("sbatch") == []


def test_a_request_tells_a_task_the_directory_and_how_it_is_shared_and_no_file(site):
    ticket = submit(site, make_jobs(site))
    asked = json.loads((site.find_ticket_directory(ticket) / "request.json").read_text())["scan"]
    assert (asked["directory"], asked["task_count"], asked["seconds"]) == (site.run.directory, 3, 30 * 60 * 0.8)
    assert not any(name in json.dumps(asked) for name in NAMES)
