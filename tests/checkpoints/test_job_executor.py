"""Verification jobs on a stand-in for Slurm: refusals, retries, restarts, and owners who write what they like."""

import os
import shutil
from datetime import timedelta

import pytest

from checkpoints.verify_jobs_site import USER, MemoryTickets, open_site
from ckptd.checkpoints.agent import requests
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.executor import NO_RESULT, SkippedRequest, TicketState
from ckptd.core.model import CheckpointState, Unknown
from ckptd.core.verification.followed_tasks import RESULT_DELAY
from ckptd.core.verification.job_policy import VerifyJobPolicy
from ckptd.core.verification.skip_reasons import SkipReason

NAMES = ("epoch_1.npz", "epoch_2.npz")


@pytest.fixture
def site(monkeypatch):
    with open_site(monkeypatch) as site:
        site.save(*NAMES)
        yield site


def lose_tasks(site, executor, ticket):
    """Let ckptd see that tasks ended without a result, and wait as long as it does."""
    executor.follow(ticket)
    site.now += RESULT_DELAY
    return executor.follow(ticket)


def test_a_job_is_submitted_as_the_owner_with_what_the_site_names(site):
    executor = site.make_jobs()
    ticket = executor.submit(site.request())
    (words,) = site.slurm.list_calls("sbatch")
    assert {"--partition=verify", "--account=storage", "--qos=low", "--time=30", "--nice=500"} <= set(words)
    assert {"--array=0-1%2", f"--job-name=ckptd-verify-{ticket}"} <= set(words)
    (job,) = site.slurm.list_jobs().values()
    assert job["uid"] == USER.pw_uid
    directory = site.find_ticket_directory(ticket)
    assert (directory.stat().st_uid, directory.stat().st_mode & 0o777) == (USER.pw_uid, 0o700)
    assert executor.follow(ticket) == (TicketState.WAITING, 0, frozenset())


def test_progress_counts_the_bytes_of_finished_tasks(site):
    executor = site.make_jobs()
    ticket = executor.submit(site.request())
    site.slurm.run_tasks(1, 0)
    size = site.tickets.read(ticket).tasks[0][0].size_bytes
    assert executor.follow(ticket) == (TicketState.RUNNING, size, {0})


ROWS_WITHOUT = {
    "no association at all": [],
    "another account": [["physics", "", "low"]],
    "another partition": [["storage", "gpu", "low"]],
    "another QOS": [["storage", "", "normal,high"]],
}


@pytest.mark.parametrize("rows", ROWS_WITHOUT.values(), ids=ROWS_WITHOUT.keys())
def test_nothing_is_submitted_for_a_user_without_an_allocation(site, rows):
    site.slurm.plan(sacctmgr={"rows": rows})
    skipped = site.make_jobs().submit(site.request())
    assert isinstance(skipped, SkippedRequest)
    assert skipped.reason is SkipReason.NO_ALLOCATION
    assert USER.pw_name in skipped.detail
    assert (site.slurm.list_calls("sbatch"), site.tickets.by_name) == ([], {})
    assert list((site.root / "tickets").glob("*/*")) == []


@pytest.mark.parametrize("row", [["storage", "", "low"], ["storage", "verify", "normal,low"], ["storage", "", ""]])
def test_a_user_with_an_association_is_asked_for_no_more(site, row):
    site.slurm.plan(sacctmgr={"rows": [["physics", "", ""], row]})
    assert isinstance(site.make_jobs().submit(site.request()), str)


def test_nothing_is_submitted_while_accounting_does_not_answer(site):
    site.slurm.plan(
        sacctmgr={"rc": 1, "stderr": "sacctmgr: error: Problem talking to the database: Connection refused"}
    )
    skipped = site.make_jobs().submit(site.request())
    assert (skipped.reason, "accounting did not answer" in skipped.detail) == (SkipReason.REFUSED, True)
    assert site.slurm.list_calls("sbatch") == []


def test_what_sbatch_refuses_is_skipped_with_its_words(site):
    words = "Batch job submission failed: Invalid account or account/partition combination specified"
    site.slurm.plan(sbatch={"rc": 1, "stderr": f"sbatch: error: {words}"})
    skipped = site.make_jobs().submit(site.request())
    assert skipped.reason is SkipReason.REFUSED
    assert words in skipped.detail
    assert site.tickets.by_name == {}


def test_a_job_whose_submission_got_no_answer_is_found_by_its_name_and_not_submitted_twice(site):
    site.slurm.plan(sbatch={"lost": True})
    executor = site.make_jobs()
    ticket = executor.submit(site.request())
    assert site.tickets.read(ticket).job_id is None
    site.finish(executor, ticket)
    assert len(executor.collect(ticket)) == 2
    assert len(site.slurm.list_jobs()) == 1


def test_one_user_has_a_limited_number_of_jobs(site):
    executor = site.make_jobs(max_open=1)
    ticket = executor.submit(site.request(NAMES[0]))
    skipped = executor.submit(site.request(NAMES[1]))
    assert skipped.reason is SkipReason.FULL
    executor.release(ticket)
    assert isinstance(executor.submit(site.request(NAMES[1])), str)


def test_the_agent_counts_the_jobs_of_a_user_itself(site):
    for _ in range(4):
        assert isinstance(site.make_jobs(MemoryTickets()).submit(site.request(NAMES[0])), str)
    skipped = site.make_jobs(MemoryTickets()).submit(site.request(NAMES[0]))
    assert (skipped.reason, skipped.detail) == (
        SkipReason.FULL,
        f"user {USER.pw_name} has 4 verification jobs already",
    )
    site.slurm.set_states(1, t0="COMPLETED")
    assert isinstance(site.make_jobs(MemoryTickets()).submit(site.request(NAMES[0])), str)


def test_a_lost_task_waits_until_the_user_has_fewer_jobs(site):
    executor = site.make_jobs()
    ticket = executor.submit(site.request(NAMES[0]))
    site.slurm.set_states(1, t0="NODE_FAIL")
    for _ in range(4):
        site.make_jobs(MemoryTickets()).submit(site.request(NAMES[1]))
    lose_tasks(site, executor, ticket)
    assert site.tickets.read(ticket).try_count == 1
    site.slurm.set_states(2, t0="COMPLETED")
    executor.follow(ticket)
    assert site.tickets.read(ticket).try_count == 2
    site.finish(executor, ticket)
    assert len(executor.collect(ticket)) == 1


def test_only_the_tasks_that_left_no_result_are_submitted_again(site):
    executor = site.make_jobs()
    ticket = executor.submit(site.request())
    site.slurm.run_tasks(1, 0)
    site.slurm.set_states(1, t1="NODE_FAIL")
    assert lose_tasks(site, executor, ticket).state is TicketState.RUNNING
    assert sorted(site.slurm.list_jobs()[2]["tasks"]) == ["1"]
    site.finish(executor, ticket)
    assert len(executor.collect(ticket)) == 2


def test_retries_end_and_keep_the_results_so_far(site):
    executor = site.make_jobs(max_tries=2)
    ticket = executor.submit(site.request())
    site.slurm.run_tasks(1, 0)
    site.slurm.set_states(1, t1="TIMEOUT")
    lose_tasks(site, executor, ticket)
    site.slurm.set_states(2, t1="TIMEOUT")
    assert lose_tasks(site, executor, ticket).state is TicketState.READY
    assert len(executor.collect(ticket)) == 1
    assert len(site.slurm.list_jobs()) == 2


def test_a_job_that_somebody_cancelled_is_not_submitted_again(site):
    executor = site.make_jobs()
    ticket = executor.submit(site.request())
    site.slurm.set_states(1, t0="CANCELLED", t1="CANCELLED")
    assert lose_tasks(site, executor, ticket).state is TicketState.READY
    answer = executor.collect(ticket)
    assert isinstance(answer, Unknown)
    assert (answer.what, answer.reason) == (NO_RESULT, "job 1 was cancelled")
    assert len(site.slurm.list_jobs()) == 1


def test_a_job_that_the_queue_has_forgotten_is_submitted_again(site):
    executor = site.make_jobs()
    ticket = executor.submit(site.request())
    site.slurm.forget(1)
    lose_tasks(site, executor, ticket)
    assert len(site.slurm.list_calls("sbatch")) == 2


def test_a_job_that_waits_for_too_long_is_given_up_and_cancelled(site):
    executor = site.make_jobs(max_wait=timedelta(days=1))
    ticket = executor.submit(site.request())
    site.now += timedelta(days=2)
    assert executor.follow(ticket).state is TicketState.READY
    assert isinstance(executor.collect(ticket), Unknown)
    executor.release(ticket)
    assert set(site.slurm.list_jobs()[1]["tasks"].values()) == {"CANCELLED"}


def test_nothing_changes_while_slurm_does_not_answer(site):
    executor = site.make_jobs()
    ticket = executor.submit(site.request())
    trouble = {"rc": 1, "stderr": "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"}
    site.slurm.plan(squeue=trouble)
    site.now += timedelta(days=1)
    for answer in (executor.follow(ticket), executor.release(ticket)):
        assert isinstance(answer, Unknown)
        assert answer.what != NO_RESULT
    assert site.find_ticket_directory(ticket).is_dir()
    site.slurm.plan()
    site.finish(executor, ticket)
    assert len(executor.collect(ticket)) == 2


def test_a_released_job_is_cancelled_and_leaves_no_file(site):
    executor = site.make_jobs()
    ticket = executor.submit(site.request())
    executor.release(ticket)
    assert set(site.slurm.list_jobs()[1]["tasks"].values()) == {"CANCELLED"}
    assert not site.find_ticket_directory(ticket).exists()
    assert site.tickets.by_name == {}


def put_link(path, site):
    path.symlink_to("/etc/passwd")


def put_pipe(path, site):
    os.mkfifo(path)


def put_directory(path, site):
    path.mkdir()


def put_large(path, site):
    with path.open("wb") as file:
        file.truncate(1 << 30)


def put_garbage(path, site):
    path.write_bytes(b'{"version":1,"task":0,"pieces":[{"path":"/etc/passwd"}]}')


def put_hard_link_to_root(path, site):
    secret = site.root / "secret"
    secret.write_text("root's own")
    os.link(secret, path)


@pytest.mark.parametrize(
    "put",
    [put_link, put_pipe, put_directory, put_large, put_garbage, put_hard_link_to_root],
    ids=lambda put: put.__name__,
)
def test_a_result_that_is_no_plain_file_of_the_owner_is_not_believed(site, put):
    executor = site.make_jobs()
    ticket = executor.submit(site.request(NAMES[0]))
    path = site.find_ticket_directory(ticket) / "result-0.json"
    put(path, site)
    if put is not put_hard_link_to_root:
        os.chown(path, USER.pw_uid, USER.pw_gid, follow_symlinks=False)
    if put is put_hard_link_to_root and os.geteuid() != 0:
        pytest.skip("only root owns files that are another user's")
    assert executor.follow(ticket).state is TicketState.READY
    answer = executor.collect(ticket)
    assert isinstance(answer, Unknown)
    assert answer.what == NO_RESULT
    assert "root's own" not in answer.reason
    assert executor.release(ticket) is None


def test_a_ticket_directory_that_became_a_link_is_not_followed(site):
    executor = site.make_jobs()
    ticket = executor.submit(site.request(NAMES[0]))
    site.slurm.run_tasks(1)
    directory = site.find_ticket_directory(ticket)
    elsewhere = site.root / "run" / "elsewhere"
    shutil.move(directory, elsewhere)
    directory.symlink_to(elsewhere)
    assert isinstance(executor.collect(ticket), Unknown)
    executor.release(ticket)
    assert (elsewhere / "result-0.json").exists()


def test_a_directory_that_the_owner_replaced_ends_the_ticket_and_not_ckptd(site):
    executor = site.make_jobs(max_tries=2)
    ticket = executor.submit(site.request(NAMES[0]))
    base = site.find_ticket_directory(ticket).parent
    shutil.move(base, site.root / "run" / "base")
    base.symlink_to(site.root / "run" / "base")
    site.slurm.set_states(1, t0="FAILED")
    lose_tasks(site, executor, ticket)
    assert executor.follow(ticket).state is TicketState.READY
    answer = executor.collect(ticket)
    assert "its request cannot be written" in answer.reason
    assert executor.release(ticket) is None
    assert site.tickets.by_name == {}


def test_a_request_that_cannot_be_written_is_skipped_with_the_reason(site):
    (site.root / "tickets").chmod(0o555)
    if os.geteuid() != 0:
        pytest.skip("only root gives the directory to another user")
    os.chown(site.root / "tickets", 0, 0)
    skipped = site.make_jobs().submit(site.request())
    assert skipped.reason is SkipReason.REFUSED
    assert "Permission denied" in skipped.detail
    assert (site.slurm.list_calls("sbatch"), site.tickets.by_name) == ([], {})


def test_a_ticket_about_which_nobody_answers_ends_after_its_longest_wait(site):
    executor = site.make_jobs(max_wait=timedelta(days=1))
    ticket = executor.submit(site.request())
    site.slurm.plan(squeue={"rc": 1, "stderr": "Unable to contact slurm controller (connect failure)"})
    site.now += timedelta(days=2)
    executor.follow(ticket)
    assert executor.follow(ticket).state is TicketState.READY
    assert executor.release(ticket) is None
    assert site.tickets.by_name == {}


def test_the_agent_submits_nothing_where_the_site_names_no_partition():
    item = {"directory": "/scratch/run", "ticket": "0" * 16, "tasks": [["epoch_1.npz"]], "numbers": [0]}
    with pytest.raises(requests.RequestError, match="names no partition"):
        requests.complete("submit_verification", item, RequestPolicy())
    allowed = RequestPolicy(verify_jobs=VerifyJobPolicy(partition="verify"))
    assert requests.complete("submit_verification", item, allowed)["jobs"]["partition"] == "verify"
    with pytest.raises(requests.RequestError, match="unknown field 'partition'"):
        requests.complete("submit_verification", {**item, "partition": "gpu"}, allowed)


def test_a_forged_result_says_nothing_about_files_of_others(site):
    executor = site.make_jobs()
    ticket = executor.submit(site.request(NAMES[0]))
    site.slurm.run_tasks(1)
    path = site.find_ticket_directory(ticket) / "result-0.json"
    path.write_text(path.read_text().replace(NAMES[0], NAMES[1]))
    executor.follow(ticket)
    assert executor.collect(ticket) == ()


def test_a_forged_damage_of_the_requested_file_is_its_owners_own_statement(site):
    executor = site.make_jobs()
    ticket = executor.submit(site.request(NAMES[0]))
    site.slurm.run_tasks(1)
    path = site.find_ticket_directory(ticket) / "result-0.json"
    path.write_text(path.read_text().replace('"complete"', '"damaged"'))
    executor.follow(ticket)
    (found,) = executor.collect(ticket)
    assert found.state is CheckpointState.DAMAGED
