"""A run that continues on another cluster is one run in the records, where both clusters share its directory."""

from datetime import UTC, datetime, timedelta

import pytest

from ckptd.core.model import RestartKind, Unknown
from ckptd.store import checkpoints
from support.joined_runs import ALPHA, BETA, end, make_started, read, run_on_alpha, scan, share, start
from support.queue_facts import at
from support.two_clusters import DIRECTORY, poll


def end_on_alpha(store):
    """A job of alpha has ended, and both clusters share the directory."""
    share(store)
    run_on_alpha(store)


def go_on_on_beta(store):
    end_on_alpha(store)
    start(store, BETA, 70)


def scan_from_beta(store):
    go_on_on_beta(store)
    scan(store, BETA, 71, (1, 30), (2, 50))


def clusters_of(record):
    return [each.job.cluster for each in record.attempts]


def facts_of(record):
    """Return what is known of each checkpoint: its step, when it was seen first, its writer and its deletion."""
    return [
        (each.checkpoint.step, each.first_seen_at, each.attempt and each.attempt[0].cluster, each.deleted_at)
        for each in record.checkpoints
    ]


@pytest.mark.filled_by(record=scan_from_beta)
def test_attempts_of_both_clusters_are_those_of_one_run_in_the_order_of_their_starts(store):
    for run in (ALPHA, BETA):
        record = read(store, run)
        assert (record.key, clusters_of(record)) == (run, ["alpha", "beta"])
        assert [each.kind for each in record.attempts] == [None, RestartKind.RESUBMIT]


@pytest.mark.parametrize("declared", ["by nobody", "by one", "elsewhere"])
def test_without_a_declaration_of_both_for_its_directory_each_has_a_run_of_its_own(store, declared):
    if declared != "by nobody":
        share(store, is_mutual=declared == "elsewhere")
    if declared == "elsewhere":
        theirs = store.declared_shares.read_declared()
        for each in theirs:
            store.declared_shares.record(each.cluster, [each._replace(directory="/data/al")])
    run_on_alpha(store)
    start(store, BETA, 70)
    scan(store, BETA, 71, (1, 30), (2, 50))
    assert clusters_of(read(store, BETA)) == ["beta"]
    assert clusters_of(read(store, ALPHA)) == ["alpha"]
    assert [each.kind for each in read(store, BETA).attempts] == [None]
    assert {first for _, first, _, _ in facts_of(read(store, BETA))} == {at(71)}


@pytest.mark.filled_by(record=go_on_on_beta)
def test_a_declaration_that_is_withdrawn_parts_the_runs_at_once(store):
    assert clusters_of(read(store, BETA)) == ["alpha", "beta"]
    share(store, is_mutual=False)
    store.histories.cache.forget_others([])
    assert clusters_of(read(store, BETA)) == ["beta"]


@pytest.mark.filled_by(record=go_on_on_beta)
def test_while_the_clocks_of_the_clusters_differ_each_has_a_run_of_its_own(store):
    now = datetime.now(UTC)
    store.declared_shares.record_clock("alpha", now - timedelta(seconds=50))
    assert clusters_of(read(store, BETA)) == ["alpha", "beta"]
    store.declared_shares.record_clock("beta", now + timedelta(seconds=50))
    store.histories.cache.forget_others([])
    assert clusters_of(read(store, BETA)) == ["beta"]
    assert store.joined_runs.read("beta") == ()
    store.declared_shares.record_clock("alpha", now + timedelta(seconds=50))
    assert [each.acting for each in store.joined_runs.read("beta")] == ["beta"]


@pytest.mark.filled_by(record=scan_from_beta)
def test_a_checkpoint_keeps_when_the_other_cluster_saw_it_and_who_wrote_it(store):
    assert facts_of(read(store, BETA)) == [(1, at(31), "alpha", None), (2, at(51), "alpha", None)]
    scan(store, BETA, 81, (1, 30), (2, 50), (3, 80), watched=71)
    assert facts_of(read(store, BETA))[2:] == [(3, at(81), "beta", None)]
    assert len(facts_of(read(store, ALPHA))) == 2, "only the daemon of alpha writes its rows"


@pytest.mark.filled_by(record=go_on_on_beta)
def test_what_was_deleted_before_the_first_scan_from_the_other_cluster_is_known_to_have_been_there(store):
    scan(store, BETA, 71)
    assert facts_of(read(store, BETA)) == [(1, at(31), "alpha", at(71)), (2, at(51), "alpha", at(71))]


def test_what_a_run_would_forget_again_is_not_copied(store, monkeypatch):
    monkeypatch.setattr(checkpoints, "GONE_COUNT", 2)
    share(store)
    job = start(store, ALPHA, 0)
    scan(store, ALPHA, 1, (1, 0))
    scan(store, ALPHA, 11, (2, 10), watched=1)
    scan(store, ALPHA, 21, (3, 20), watched=11)  # two are deleted
    end(store, job, 25)
    start(store, BETA, 30)
    scan(store, BETA, 31, (4, 30))
    scan(store, BETA, 41, (5, 40), watched=31)
    scan(store, BETA, 51, (6, 50), watched=41)
    gone = [step for step, _, _, deleted_at in facts_of(read(store, BETA)) if deleted_at is not None]
    assert gone == [4, 5]
    assert scan(store, BETA, 52, (6, 50), watched=51) == {}
    before = store.runs.read_revisions("beta")
    scan(store, BETA, 53, (6, 50), watched=52)
    assert store.runs.read_revisions("beta") == before


def test_what_a_run_has_summed_up_is_not_copied_again(store):
    share(store)
    job = start(store, ALPHA, 0)
    saves = [(step, step * 10) for step in (1, 2, 3, 4)]
    scan(store, ALPHA, 1)
    scan(store, ALPHA, 41, *saves, watched=1)
    end(store, job, 45)
    job = start(store, BETA, 50)
    scan(store, BETA, 51)
    end(store, job, 55)
    poll(store, "beta", at(60))  # the job leaves the queue
    assert store.summed_checkpoints.sum_up("beta", at(1000)).row_count == 2
    start(store, BETA, 2000, job_id=8)
    scan(store, BETA, 2001)
    assert [step for step, *_ in facts_of(read(store, BETA))] == [3, 4]


@pytest.mark.filled_by(record=scan_from_beta)
def test_a_second_scan_copies_nothing_again_and_changes_no_revision(store):
    before = store.runs.read_revisions("beta")
    assert scan(store, BETA, 72, (1, 30), (2, 50), watched=71) == {}
    assert store.runs.read_revisions("beta") == before
    assert len(facts_of(read(store, BETA))) == 2


@pytest.mark.filled_by(record=go_on_on_beta)
def test_the_revision_of_a_first_scan_that_learned_from_the_other_cluster_is_not_that_of_what_it_found(store):
    """The daemon would keep what the scan found for its next decision, instead of reading the record."""
    assert scan(store, BETA, 71, (1, 30), (2, 50)) == {}


@pytest.mark.filled_by(record=go_on_on_beta)
def test_a_file_that_was_replaced_between_the_clusters_is_another_checkpoint(store):
    scan(store, BETA, 71, (1, 30), (2, 65))
    assert facts_of(read(store, BETA)) == [
        (1, at(31), "alpha", None),
        (2, at(51), "alpha", at(71)),
        (2, at(71), None, None),
    ]


@pytest.mark.filled_by(record=scan_from_beta)
def test_a_run_that_returns_has_what_the_other_cluster_saw_meanwhile(store):
    scan(store, BETA, 81, (2, 50), (3, 80), watched=71)
    end(store, make_started(BETA, 70), 90)
    start(store, ALPHA, 100, job_id=8)
    scan(store, ALPHA, 101, (2, 50), (3, 80))
    record = read(store, ALPHA)
    assert clusters_of(record) == ["alpha", "beta", "alpha"]
    assert facts_of(record) == [
        (1, at(31), "alpha", at(101)),
        (2, at(51), "alpha", None),
        (3, at(81), "beta", None),
    ]


@pytest.mark.filled_by(record=scan_from_beta)
def test_an_attempt_resumes_from_what_a_job_on_the_other_cluster_saved(store):
    scan(store, BETA, 91, (1, 30), (2, 50), (3, 90), watched=71)
    resume = read(store, BETA).attempts[1].resumed_from
    assert resume.path == f"{DIRECTORY}/step_2.pt"


@pytest.mark.filled_by(record=end_on_alpha)
def test_the_daemon_of_the_second_cluster_changes_no_row_of_the_first(store):
    lines, before = store.lost_work.list_lines(ALPHA), store.runs.read_revisions("alpha")
    job = start(store, BETA, 70)
    scan(store, BETA, 71, (1, 30), (2, 50))
    scan(store, BETA, 76, (1, 30), (2, 50), (3, 75), watched=71)
    end(store, job, 80)
    scan(store, BETA, 81, (1, 30), (2, 50), (3, 75), watched=76)
    *theirs, line = store.lost_work.list_lines(BETA)
    assert tuple(theirs) == lines
    assert store.runs.read_revisions("alpha") == before
    assert (line.loss.lost, line.is_final) == (timedelta(minutes=5), True)


@pytest.mark.filled_by(record=end_on_alpha)
def test_which_cluster_acts_follows_the_latest_attempt(store):
    assert store.joined_runs.read("alpha") == ()
    start(store, BETA, 70)
    [ours], [theirs] = store.joined_runs.read("alpha"), store.joined_runs.read("beta")
    assert (ours.key, ours.acting, ours.is_elsewhere) == (ALPHA, "beta", True)
    assert (theirs.key, theirs.acting, theirs.is_elsewhere) == (BETA, "beta", False)
    start(store, ALPHA, 80, job_id=8)
    assert {store.joined_runs.read(cluster)[0].acting for cluster in ("alpha", "beta")} == {"alpha"}
    share(store, is_mutual=False)
    assert store.joined_runs.read("alpha") == store.joined_runs.read("beta") == ()


def test_jobs_that_run_on_the_other_cluster_are_further_writers(store):
    share(store)
    start(store, ALPHA, 0)
    start(store, BETA, 10)
    [ours] = store.joined_runs.read("beta")
    assert [(job.cluster, job.job_id, user) for job, user in ours.writers] == [("alpha", 7, "alice")]


def test_retention_and_pages_know_of_a_job_that_runs_on_the_other_cluster(store):
    share(store)
    still = start(store, ALPHA, 0)
    job = start(store, BETA, 10)
    scan(store, BETA, 11)
    scan(store, BETA, 21, (1, 15), (2, 20), watched=11)
    end(store, job, 30)
    for record in (read(store, BETA), store.prune_records.read("beta", [BETA])[0].history):
        assert [(each.cluster, each.job_id, user) for each, user in record.other_writers] == [("alpha", 7, "alice")]
    end(store, still, 40)
    assert read(store, BETA).other_writers == ()


@pytest.mark.filled_by(record=end_on_alpha)
def test_work_that_is_done_again_on_another_cluster_was_lost_on_the_first(store):
    (line,) = store.lost_work.list_lines(ALPHA)
    assert (line.loss.lost, line.redone.high) == (timedelta(minutes=10), timedelta(0))
    start(store, BETA, 70)
    scan(store, BETA, 71)  # all checkpoints are gone
    scan(store, BETA, 101, (1, 100), watched=71)
    scan(store, BETA, 121, (1, 100), (2, 120), watched=101)
    [ours] = store.joined_runs.read("alpha")
    store.joined_runs.follow([], [ours.row_id])
    (line,) = store.lost_work.list_lines(ALPHA)
    assert line.redone.high == timedelta(minutes=50)


@pytest.mark.filled_by(record=go_on_on_beta)
def test_a_scan_that_could_not_read_everything_calls_nothing_of_the_other_cluster_deleted(store):
    scan(store, BETA, 75, (1, 30), problems=(Unknown(what="sub", reason="Permission denied"),))
    assert [each[::3] for each in facts_of(read(store, BETA))] == [(1, None)]
    scan(store, BETA, 80, (1, 30), (2, 50))
    assert [each[::3] for each in facts_of(read(store, BETA))] == [(1, None), (2, None)]
    scan(store, BETA, 85, (1, 30), (2, 50))
    assert [each[::2] for each in facts_of(read(store, BETA))] == [(1, "alpha"), (2, "alpha")]


@pytest.mark.filled_by(record=scan_from_beta)
def test_following_raises_the_revision_of_the_acting_part_alone(store):
    [ours], [theirs] = store.joined_runs.read("alpha"), store.joined_runs.read("beta")
    before = {**store.runs.read_revisions("alpha"), **store.runs.read_revisions("beta")}
    store.joined_runs.follow([], [ours.row_id])
    store.joined_runs.follow([theirs.row_id], [], is_first=True)
    assert {**store.runs.read_revisions("alpha"), **store.runs.read_revisions("beta")} == before
    store.joined_runs.follow([theirs.row_id], [])
    assert store.runs.read_revisions("alpha")[ALPHA] == before[ALPHA]
    assert store.runs.read_revisions("beta")[BETA] == before[BETA] + 1


@pytest.mark.filled_by(record=end_on_alpha)
def test_commands_and_pages_show_one_run_where_the_latest_attempt_is(store):
    assert store.runs.join_parts([ALPHA]) == (ALPHA,)
    job = start(store, BETA, 70)
    scan(store, BETA, 71, (1, 30), (2, 50))
    assert store.runs.join_parts(store.runs.find_of_job(7)) == (BETA,)
    assert store.runs.join_parts([ALPHA]) == (BETA,)
    assert store.ended_runs.list_of_user("alice", 10) == ()
    end(store, job, 80)
    (ended,) = store.ended_runs.list_of_user("alice", 10)
    assert ended.run == BETA
    assert [each.attempt[0].cluster for each in store.lost_work.list_lines(BETA)] == ["alpha", "beta"]
    share(store, is_mutual=False)
    assert store.runs.join_parts([ALPHA, BETA]) == (ALPHA, BETA)
    assert {each.run for each in store.ended_runs.list_of_user("alice", 10)} == {ALPHA, BETA}
