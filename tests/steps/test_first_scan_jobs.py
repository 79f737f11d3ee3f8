"""When jobs of the owner take part in the first scan of a large directory, and when they are ended."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from ckptd.checkpoints.verify_jobs.job_executor import JobExecutor, JobLimits
from ckptd.core.model import JobState, Scan
from ckptd.core.verification.followed_tasks import RESULT_DELAY
from ckptd.core.verification.skip_reasons import SkipReason
from ckptd.service.build_verification import DEADLINE
from ckptd.steps import first_scan_jobs, follow_verifications, scan
from ckptd.steps.state import begin
from support.prune_facts import EPOCHS, workshop


@dataclass
class ScanAgent:
    """An agent whose scans leave as much unread as the test says, and whose jobs do what the test says."""

    inner: object
    unread: int = 0
    refusal: str | None = None
    reason: SkipReason = SkipReason.NO_ALLOCATION
    finished: list = field(default_factory=list)  # tasks with a result
    states: list = field(default_factory=list)  # of tasks that the queue shows
    submitted: list = field(default_factory=list)
    cancelled: list = field(default_factory=list)
    taken: list = field(default_factory=list)  # the results that each scan was asked to take

    def run(self, batches):
        return [
            [self._answer(batch.operation, item) for item in batch.items]
            if batch.operation.endswith(("submit_scan", "_verification"))
            else self._scan(batch)
            for batch in batches
        ]

    def run_as_answered(self, batches):
        return self.inner.run_as_answered(batches)

    def _scan(self, batch):
        answers = self.inner.run([batch])[0]
        if batch.operation != "scan":
            return answers
        self.taken += [item["results"] for item in batch.items if item["fingerprint"] is None]
        unread = {"unread_count": self.unread, "fingerprint": None} if self.unread else {}
        return [{**answer, **unread} if "directory" in answer else answer for answer in answers]

    def _answer(self, operation, item):
        if operation == "submit_scan":
            self.submitted.append(item)
            if self.refusal:
                return {"refused": self.refusal, "reason": self.reason.value}
            return {"job_id": 7}
        if operation == "cancel_verification":
            self.cancelled.append(item["ticket"])
            return {}
        return {"job_id": 7, "states": self.states, "results": self.finished}

    def close(self):
        self.inner.close()


@pytest.fixture
def shop(monkeypatch):
    """A run of six saves, of which three are not read yet."""
    monkeypatch.setattr(first_scan_jobs, "UNREAD_FOR", timedelta(0))
    with workshop() as shop:
        for number, name in enumerate(EPOCHS, 1):
            shop.save(name, epoch=number)
        let_jobs_scan(shop)
        shop.agent.unread = 3
        shop.start_job()
        shop.look()
        yield shop


def let_jobs_scan(shop, **limits):
    """Set a directory of more than two entries as the limit, and two entries as the share of a task."""
    shop.agent = shop.agent if isinstance(shop.agent, ScanAgent) else ScanAgent(shop.agent)
    executor = JobExecutor(
        agent=shop.agent,
        tickets=shop.store.verification_tickets,
        limits=JobLimits(**{"scan_entries": 2, "max_tries": 1, **limits}),
        deadline=DEADLINE,
        read_time=lambda: shop.now,
    )
    shop.parts = replace(shop.parts, agent=shop.agent, job_executor=executor)


def follow(shop):
    """Run the step; return what it logs."""
    return [line.text for line in follow_verifications.run(shop.parts, shop.state, shop.now).lines]


def list_tickets(shop):
    return shop.store.verification_tickets.list_unwatched(shop.run.cluster, shop.now)


def wait_and_look(shop, seconds=2):
    shop.now += timedelta(seconds=seconds)
    scan.run(shop.parts, shop.state, shop.now)


def test_a_job_is_submitted_for_what_a_large_directory_leaves_unread(shop):
    (line,) = follow(shop)
    assert line == f"a job of the owner was submitted to read 3 checkpoints in '{shop.run.directory}'"
    (item,) = shop.agent.submitted
    assert (item["directory"], item["task_count"], item["numbers"]) == (shop.run.directory, 3, [0, 1, 2])
    (ticket,) = list_tickets(shop)
    assert (ticket.run, ticket.is_scan, ticket.job_id) == (shop.run, True, 7)


@pytest.mark.parametrize("entries", [0, 6], ids=["the site does not say so", "it is not larger than the limit"])
def test_no_job_is_submitted(shop, entries):
    let_jobs_scan(shop, scan_entries=entries)
    assert follow(shop) == []
    assert shop.agent.submitted == []


def test_no_job_is_submitted_for_what_scans_read_within_minutes(shop, monkeypatch):
    monkeypatch.undo()
    for seconds in (0, 250):
        shop.now += timedelta(seconds=seconds)
        assert follow(shop) == []
    shop.now += timedelta(seconds=50)
    assert len(follow(shop)) == 1


def test_no_job_is_submitted_for_a_directory_that_was_read_whole(shop):
    shop.agent.unread = 0
    wait_and_look(shop)
    assert follow(shop) == []
    assert shop.agent.submitted == []


def test_while_a_job_waits_the_scans_go_on_and_no_other_job_is_submitted(shop):
    follow(shop)
    shop.agent.states = [[number, JobState.PENDING.value] for number in range(3)]
    for _ in range(3):
        before = len(shop.agent.taken)
        wait_and_look(shop)
        assert shop.agent.taken[before:] == [None]
        assert follow(shop) == []
    assert len(shop.agent.submitted) == 1


def test_the_result_of_each_task_is_taken_once_by_the_scan_after_it(shop):
    follow(shop)
    ticket = shop.agent.submitted[0]["ticket"]
    shop.agent.states = [[0, JobState.RUNNING.value], [2, JobState.PENDING.value]]
    shop.agent.finished = [1]
    del shop.agent.taken[:]
    for _ in range(2):
        follow(shop)
        wait_and_look(shop)
    shop.agent.finished = [0, 1, 2]
    follow(shop)
    wait_and_look(shop)
    assert shop.agent.taken == [{"ticket": ticket, "tasks": [1]}, None, {"ticket": ticket, "tasks": [0, 2]}]


def test_results_are_offered_until_a_scan_with_them_is_on_record(shop, monkeypatch):
    follow(shop)
    shop.agent.finished = [0, 1, 2]
    follow(shop)
    del shop.agent.taken[:]
    with monkeypatch.context() as patch:
        patch.setattr(shop.agent.inner, "run", lambda batches: [[{"unknown": "timed out"}] for _ in batches])
        wait_and_look(shop)
    wait_and_look(shop, 3600)
    assert shop.agent.taken == [{"ticket": shop.agent.submitted[0]["ticket"], "tasks": [0, 1, 2]}] * 2


class FailingScans:
    """Let scans fail while `holds` says so of the results that they are asked to take."""

    def __init__(self, shop, monkeypatch, holds):
        run = shop.agent.inner.run

        def answer(batches):
            (batch,) = batches
            if batch.operation == "scan" and any(holds(item["results"]) for item in batch.items):
                return [[{"unknown": "timed out"} for _ in batch.items]]
            return run(batches)

        monkeypatch.setattr(shop.agent.inner, "run", answer)


def follow_and_look(shop, hours, minutes=10):
    """Follow and scan every few minutes; return what is logged."""
    lines = []
    for _ in range(int(hours * 60 / minutes)):
        lines += follow(shop)
        wait_and_look(shop, minutes * 60)
    return lines


def test_results_with_which_scans_fail_stop_no_scan_for_long(shop, monkeypatch):
    follow(shop)
    FailingScans(shop, monkeypatch, lambda results: results is not None)
    shop.agent.finished = [0, 1, 2]
    follow_and_look(shop, hours=3)
    assert isinstance(shop.state.watchlist.get(shop.run).last, Scan)
    assert (list_tickets(shop), len(shop.agent.submitted)) == ((), 1)


def test_no_result_is_offered_while_scans_fail(shop, monkeypatch):
    follow(shop)
    with monkeypatch.context() as patch:
        FailingScans(shop, patch, lambda _results: True)
        wait_and_look(shop)
        shop.agent.finished = [0, 1, 2]
        del shop.agent.taken[:]
        follow_and_look(shop, hours=3)
        assert set(shop.agent.taken) == {None}
    wait_and_look(shop, 3600)
    follow(shop)
    wait_and_look(shop)
    assert shop.agent.taken[-1]["tasks"] == [0, 1, 2]


def test_the_ticket_of_a_directory_that_cannot_be_scanned_ends(shop, monkeypatch):
    follow(shop)
    FailingScans(shop, monkeypatch, lambda _results: True)
    wait_and_look(shop)
    shop.agent.states = [[number, JobState.RUNNING.value] for number in range(3)]
    follow_and_look(shop, hours=24 * 9, minutes=180)
    assert (list_tickets(shop), len(shop.agent.cancelled)) == ((), 1)


def test_a_scan_before_a_removal_takes_no_result(shop):
    follow(shop)
    shop.agent.finished = [0, 1, 2]
    follow(shop)
    del shop.agent.taken[:]
    scan.scan_again(shop.parts, shop.state, [shop.run], frozenset(), shop.now)
    wait_and_look(shop)
    assert [each is None for each in shop.agent.taken] == [True, False]


@pytest.mark.parametrize("finished", [[], [0, 1, 2]], ids=["while it waits", "after its end"])
def test_a_job_that_is_no_longer_needed_is_cancelled(shop, finished):
    follow(shop)
    shop.agent.states = [[number, JobState.PENDING.value] for number in range(3) if number not in finished]
    shop.agent.finished = finished
    follow(shop)
    shop.agent.unread = 0
    wait_and_look(shop)
    assert follow(shop) == [f"job 7 is no longer needed to read '{shop.run.directory}'"]
    assert shop.agent.cancelled == [shop.agent.submitted[0]["ticket"]]
    assert list_tickets(shop) == ()


def test_a_refused_job_leaves_all_to_this_node_for_an_hour(shop):
    shop.agent.refusal = "user alice has no association with account storage"
    (line,) = follow(shop)
    assert line == (
        f"no job reads the 3 checkpoints in '{shop.run.directory}' that are not read yet: {shop.agent.refusal!a}"
    )
    wait_and_look(shop, 3500)
    assert (follow(shop), list_tickets(shop)) == ([], ())
    wait_and_look(shop, 200)
    assert len(follow(shop)) == 1
    assert len(shop.agent.submitted) == 2


@pytest.mark.parametrize("reason", [SkipReason.NO_ALLOCATION, SkipReason.REFUSED], ids=str)
def test_a_user_whose_job_is_refused_is_named_once_an_hour(shop, reason):
    other = shop.run._replace(directory=f"{shop.run.directory}-more")
    shop.state.watchlist.visit([other], shop.now)
    shop.state.watchlist.record_scan(other, shop.state.watchlist.get(shop.run).last, shop.now)
    assert shop.state.watchlist.get(other).last.unread_count == 3
    shop.agent.refusal, shop.agent.reason = "no", reason
    assert [len(follow(shop)) for _ in range(3)] == [1, 0, 0]
    assert len(shop.agent.submitted) == 1


def test_a_job_without_an_id_is_not_named_by_it(shop, monkeypatch):
    monkeypatch.setattr(shop.agent, "_answer", lambda *_: {"unknown": "timed out"})
    follow(shop)
    monkeypatch.undo()
    let_jobs_scan(shop, scan_entries=0)
    (line,) = follow(shop)
    assert line.startswith("a job is no longer needed to read ")


def test_a_job_that_leaves_no_result_ends_and_this_node_reads_the_rest(shop):
    follow(shop)
    for seconds in (1, RESULT_DELAY.total_seconds()):
        shop.now += timedelta(seconds=seconds)
        follow(shop)
    wait_and_look(shop)
    (line,) = follow(shop)
    assert line.startswith(f"job 7 did not read all checkpoints in '{shop.run.directory}'; this node reads the rest: ")
    assert "3 tasks left no result after 1 tries" in line
    assert (list_tickets(shop), len(shop.agent.submitted)) == ((), 1)
    wait_and_look(shop, 3600)
    assert follow(shop) == []
    wait_and_look(shop, 24 * 3600)
    follow(shop)
    assert len(shop.agent.submitted) == 2


def test_many_results_are_taken_in_several_scans(shop, monkeypatch):
    monkeypatch.setattr(first_scan_jobs, "MAX_RESULTS", 2)
    follow(shop)
    shop.agent.finished = [0, 1, 2]
    del shop.agent.taken[:]
    for _ in range(2):
        follow(shop)
        wait_and_look(shop)
    assert [each["tasks"] for each in shop.agent.taken] == [[0, 1], [2]]


def test_a_daemon_that_starts_again_follows_the_ticket_and_takes_the_results_again(shop):
    follow(shop)
    shop.state = begin(shop.parts, shop.now)
    shop.agent.finished = [0, 1, 2]
    assert follow(shop) == []
    wait_and_look(shop)
    assert shop.agent.taken[-1]["tasks"] == [0, 1, 2]
    assert len(shop.agent.submitted) == 1


def test_a_site_that_no_longer_lets_jobs_scan_ends_them_and_may_let_them_again(shop):
    follow(shop)
    let_jobs_scan(shop, scan_entries=0)
    assert follow(shop) == [f"job 7 is no longer needed to read '{shop.run.directory}'"]
    assert (len(shop.agent.cancelled), list_tickets(shop)) == (1, ())
    let_jobs_scan(shop)
    follow(shop)
    assert len(shop.agent.submitted) == 2


def test_a_run_that_is_no_longer_watched_needs_no_job(shop):
    follow(shop)
    shop.agent.unread = 0
    shop.end_jobs()
    assert shop.run not in shop.state.watchlist
    follow(shop)
    assert (len(shop.agent.cancelled), list_tickets(shop)) == (1, ())
