"""The ledger of lost work in the record: written with the end, bettered by what is learned later, never twice."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.model import Certainty, EndCause, FileIdentity, Role, RunKey, Unknown
from ckptd.core.model.records import ScanRecord
from ckptd.core.queue import accounting_merge
from ckptd.core.runs.lost_work_totals import LossKey, LossTotal
from ckptd.store import history_rows, lost_work
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job, make_row, make_scan
from support.recorded import locate, note_run, poll, scan

ELSEWHERE = RunKey(CLUSTER, 1000, "/data/alice/other")


def make_wide_job(job_id=1, **changes):
    """Return a job on two nodes with eight processors and a GPU."""
    return make_job(job_id, node_count=2, cpu_count=8, gpu_count=1, account="lab", partition="main", **changes)


JOB = make_wide_job()


def run_job(store, job_id=1, run=RUN, **changes):
    """See a job running from noon; return it."""
    job = make_wide_job(job_id, **changes)
    poll(store, 0, job)
    if run is not None:
        locate(store, job_id, run)
    return job


pytestmark = pytest.mark.filled_by(record=run_job)


def minutes_lost(store, run=RUN):
    return [line.loss.lost / timedelta(minutes=1) for line in store.lost_work.list_lines(run)]


def timed_out(job, minutes=20):
    return replace(job, state=STATES.TIMEOUT, ends_at=at(minutes))


def test_an_end_is_in_the_ledger_with_the_transaction_that_records_it(store):
    scan(store, 5, make_checkpoint(written=4))
    poll(store, 21, timed_out(JOB))
    (line,) = store.lost_work.list_lines(RUN)
    assert (line.attempt[0].job_id, line.attempt[1]) == (1, 0)
    assert (line.user, line.account, line.partition, line.cause) == ("alice", "lab", "main", EndCause.TIME_LIMIT)
    assert (line.ended_at, line.loss.saved_at, line.loss.lost) == (at(20), at(4), timedelta(minutes=16))
    seconds = 16 * 60
    assert (line.loss.node_seconds, line.loss.cpu_seconds, line.loss.gpu_seconds) == (2 * seconds, 8 * seconds, seconds)
    assert not line.is_final


def test_a_save_found_after_the_end_betters_the_line_and_settles_it(store):
    poll(store, 21, timed_out(JOB))
    assert minutes_lost(store) == [21]
    scan(store, 22, make_checkpoint(written=18))
    (line,) = store.lost_work.list_lines(RUN)
    assert (line.loss.lost, line.is_final) == (timedelta(minutes=2), True)
    scan(store, 23, make_checkpoint(written=18), make_checkpoint("late.pt", written=19))  # as if it came from elsewhere
    assert minutes_lost(store) == [1]


def test_a_look_that_finds_nothing_new_settles_the_line(store):
    scan(store, 5, make_checkpoint(written=4))
    poll(store, 21, timed_out(JOB))
    scan(store, 22, make_checkpoint(written=4))
    assert [line.is_final for line in store.lost_work.list_lines(RUN)] == [True]


@pytest.mark.parametrize("trouble", ["unknown", "part"])
def test_a_look_that_did_not_see_everything_settles_nothing(store, trouble):
    poll(store, 21, timed_out(JOB))
    problem = Unknown(what="directory", reason="Stale file handle")
    seen = problem if trouble == "unknown" else make_scan(22, problems=(problem,))
    store.checkpoints.record_scans([ScanRecord(run=RUN, scan=seen)])
    assert [line.is_final for line in store.lost_work.list_lines(RUN)] == [False]


def test_a_scan_before_the_end_was_polled_settles_nothing_though_this_hosts_clock_was_ahead(store):
    scan(store, 75, make_checkpoint(written=4))  # an hour ahead of Slurm: it is the 15th minute
    poll(store, 81, timed_out(JOB))
    (line,) = store.lost_work.list_lines(RUN)
    assert (line.ended_at, line.loss.lost, line.is_final) == (at(20), timedelta(minutes=16), False)
    scan(store, 82, make_checkpoint(written=4), make_checkpoint("last.pt", written=18))
    (line,) = store.lost_work.list_lines(RUN)
    assert (line.loss.saved_at, line.loss.lost, line.is_final) == (at(18), timedelta(minutes=2), True)


def test_another_job_that_is_located_before_the_next_scan_does_not_settle_the_line(store):
    scan(store, 204, make_checkpoint(written=4))  # three hours ahead of Slurm
    poll(store, 35, timed_out(JOB), make_job(2, started_at=at(25)))  # the clock is right again
    locate(store, 2, RUN)
    assert [line.is_final for line in store.lost_work.list_lines(RUN)] == [False]
    scan(store, 36, make_checkpoint(written=4), make_checkpoint("last.pt", written=18))
    (line,) = store.lost_work.list_lines(RUN)
    assert (line.loss.saved_at, line.loss.lost, line.is_final) == (at(18), timedelta(minutes=2), True)


def test_a_run_that_was_scanned_before_the_end_was_polled_is_to_be_scanned_after_a_restart(store):
    scan(store, 20.5, make_checkpoint(written=4))
    poll(store, 21, timed_out(JOB))  # and the daemon is killed before it scans again
    assert store.lost_work.list_unscanned_runs(CLUSTER, at(0), partly_since=at(20)) == (RUN,)
    problem = Unknown(what="b.pt", reason="Stale file handle")
    store.checkpoints.record_scans([ScanRecord(run=RUN, scan=make_scan(22, problems=(problem,)))])
    assert store.lost_work.list_unscanned_runs(CLUSTER, at(0), partly_since=at(20)) == (RUN,), (
        "a scan that could not read everything"
    )
    assert store.lost_work.list_unscanned_runs(CLUSTER, at(0), partly_since=at(21)) == ()
    scan(store, 23, make_checkpoint(written=4))
    assert store.lost_work.list_unscanned_runs(CLUSTER, at(0), partly_since=at(20)) == ()


@pytest.mark.filled_by(record=None)
def test_lines_that_no_look_settled_are_measured_again_some_at_a_time(store, monkeypatch):
    monkeypatch.setattr(lost_work, "UNSETTLED_COUNT", 1)
    jobs = [run_job(store, number) for number in (1, 2, 3)]
    poll(store, 21, *(timed_out(job, 18 + job.job_id * 0.5) for job in jobs))
    for minute, settled in ((22, [False, False, True]), (23, [False, True, True]), (24, [True, True, True])):
        scan(store, minute)
        assert [line.is_final for line in store.lost_work.list_lines(RUN)] == settled


def test_a_requeue_counts_where_the_attempt_ran_and_not_where_it_waits(store):
    waiting = replace(JOB, state=STATES.PENDING, restart_count=1, submitted_at=at(9), partition="main,preempt")
    poll(store, 10, waiting, accounting=(make_row(1, -1, 9, STATES.PREEMPTED),))
    (line,) = store.lost_work.list_lines(RUN)
    assert (line.cause, line.partition, line.loss.lost) == (EndCause.PREEMPTION, "main", timedelta(minutes=10))


def last_minute(store, minutes):
    """Look when something was written so many minutes after noon, half a minute before."""
    attempts = store.histories.read(CLUSTER, [RUN])[0].attempts
    scan(store, minutes + 0.5, make_checkpoint(written=minutes), attempts=attempts, looked=minutes - 0.5)


def test_what_a_restart_saved_before_the_queue_showed_it_is_not_credited_to_the_attempt_before(store):
    poll(store, 10, replace(JOB, state=STATES.PENDING, restart_count=1, submitted_at=at(10)))
    last_minute(store, 10.8)
    assert minutes_lost(store) == [0], "its processes may have written on"
    poll(store, 12, replace(JOB, restart_count=1, submitted_at=at(10), started_at=at(10.7)))
    assert minutes_lost(store) == [11]
    (record,) = store.checkpoints.read(RUN)
    assert record.attempt == (store.jobs.read_tracked(CLUSTER)[1].key, 1)
    assert store.lost_work.list_lines(RUN)[0].is_final


def test_what_the_next_job_saved_before_its_run_was_known_is_not_credited_to_the_job_before(store):
    poll(store, 21, timed_out(JOB))
    last_minute(store, 20.5)
    assert minutes_lost(store) == [0]
    poll(store, 22, timed_out(JOB), make_job(2, started_at=at(20.1)))
    locate(store, 2, minutes=22)
    assert minutes_lost(store) == [21]


def test_what_was_written_before_the_restart_stays_the_attempts_own(store):
    poll(store, 10, replace(JOB, state=STATES.PENDING, restart_count=1, submitted_at=at(10)))
    last_minute(store, 10.8)
    poll(store, 12, replace(JOB, restart_count=1, submitted_at=at(10), started_at=at(10.9)))
    assert minutes_lost(store) == [0]


def test_accounting_that_answers_late_corrects_the_line(store):
    poll(store, 10, replace(JOB, state=STATES.PENDING, restart_count=1, submitted_at=at(9)))
    scan(store, 11)
    (guessed,) = store.jobs.list_unconfirmed_attempts(CLUSTER, at(0))
    assert guessed.cause is EndCause.REQUEUE
    (told,) = accounting_merge.refine([guessed], (make_row(1, -1, 8, STATES.NODE_FAIL),))
    store.jobs.correct_attempts([told])
    (line,) = store.lost_work.list_lines(RUN)
    assert (line.cause, line.ended_at, line.loss.lost) == (EndCause.NODE_FAILURE, at(8), timedelta(minutes=9))
    assert store.jobs.list_unconfirmed_attempts(CLUSTER, at(0)) == ()
    assert [attempt.cause for attempt in store.histories.read(CLUSTER, [RUN])[0].attempts] == [EndCause.NODE_FAILURE]


def test_accounting_tells_later_for_how_long_a_job_was_suspended_though_the_line_was_settled(store):
    poll(store, 6, replace(JOB, state=STATES.SUSPENDED, time_left=timedelta(minutes=54)))
    poll(store, 10, replace(JOB, ends_at=JOB.ends_at + timedelta(minutes=4)))
    poll(store, 21, timed_out(replace(JOB, ends_at=JOB.ends_at + timedelta(minutes=4))))
    scan(store, 22)
    assert (minutes_lost(store), store.lost_work.list_lines(RUN)[0].is_final) == ([17], True)
    (attempt,) = store.histories.read(CLUSTER, [RUN])[0].attempts
    row = make_row(1, -1, 20, STATES.TIMEOUT)._replace(suspended=timedelta(minutes=3))
    store.jobs.correct_attempts(accounting_merge.refine([attempt], [row]))
    assert (minutes_lost(store), store.lost_work.list_lines(RUN)[0].is_final) == ([18], True)


def test_an_attempt_that_was_taken_for_ended_and_runs_has_no_line(store):
    poll(store, 5, accounting=Unknown(what="accounting", reason="down"))
    assert len(store.lost_work.list_lines(RUN)) == 1
    poll(store, 6, JOB)
    assert store.lost_work.list_lines(RUN) == ()


@pytest.mark.filled_by(record=None)
def test_a_line_follows_its_attempt_into_the_run_that_it_turns_out_to_be_part_of(store):
    job = run_job(store, run=None)
    key = store.jobs.read_tracked(CLUSTER)[1].key
    poll(store, 21, timed_out(job))
    unlocated = store.runs.find_of_job(1)[0]
    (line,) = store.lost_work.list_lines(unlocated)
    assert (line.loss.lost, line.loss.most) == (timedelta(0), timedelta(minutes=21)), "nobody knows where it saves"
    assert (line.loss.gpu_seconds, line.is_final) == (0, False)
    other = run_job(store, 2)
    scan(store, 22, make_checkpoint(written=18, role=Role.STATE))
    note_run(store, RUN, at(23), jobs=[key], located_by="discovery")
    assert minutes_lost(store) == [2]
    assert [line.loss.most for line in store.lost_work.list_lines(RUN)] == [timedelta(minutes=2)]
    assert other.job_id == 2


def test_completed_work_has_a_line_that_lost_nothing(store):
    poll(store, 21, replace(JOB, state=STATES.COMPLETED, ends_at=at(20)))
    assert minutes_lost(store) == [0]


@pytest.mark.filled_by(record=None)
def test_sums_are_by_day_cause_partition_and_account(store):
    first, second, third = (run_job(store, number) for number in (1, 2, 3))
    last = replace(third, state=STATES.NODE_FAIL, ends_at=at(24 * 60))
    poll(store, 24 * 60 + 1, timed_out(first), timed_out(second, 30), last)
    days = store.lost_work_sums.sum_by_day(CLUSTER)
    limit, failed = (LossKey(cause, "main", "lab") for cause in (EndCause.TIME_LIMIT, EndCause.NODE_FAILURE))
    assert list(days) == [at(0).date(), at(24 * 60).date()]
    seconds = (21 + 31) * 60
    assert days[at(0).date()] == {
        limit: LossTotal(
            attempt_count=2,
            seconds=seconds,
            node_seconds=2 * seconds,
            cpu_seconds=8 * seconds,
            gpu_seconds=seconds,
            high_seconds=seconds,
            high_node_seconds=2 * seconds,
            high_cpu_seconds=8 * seconds,
            high_gpu_seconds=seconds,
        )
    }
    assert set(days[at(24 * 60).date()]) == {failed}
    assert store.lost_work_sums.sum_by_day(CLUSTER, last=at(0).date()).keys() == {at(0).date()}
    assert store.lost_work_sums.sum_by_day("other") == {}


def test_final_sums_leave_out_what_may_still_be_bettered(store):
    poll(store, 21, timed_out(JOB))
    assert store.lost_work_sums.sum_by_day(CLUSTER, final_before=at(0)) == {}
    assert len(store.lost_work_sums.sum_by_day(CLUSTER, final_before=at(60))) == 1
    scan(store, 22)
    assert len(store.lost_work_sums.sum_by_day(CLUSTER, final_before=at(0))) == 1


def test_sums_of_requeues_leave_out_those_that_accounting_has_not_confirmed(store):
    poll(store, 10, replace(JOB, state=STATES.PENDING, restart_count=1, submitted_at=at(9)))
    assert store.lost_work_sums.sum_confirmed(CLUSTER, at(0), ()) == {}, "no scan has looked for its last save"
    scan(store, 11)
    (line,) = store.lost_work.list_lines(RUN)
    (total,) = store.lost_work_sums.sum_confirmed(CLUSTER, at(0), ()).values()
    assert (total.attempt_count, total.seconds) == (1, line.loss.lost.total_seconds())
    assert store.lost_work_sums.sum_confirmed(CLUSTER, at(0), {line.attempt}) == {}
    assert store.lost_work_sums.sum_confirmed(CLUSTER, at(30), ()) == {}
    assert store.lost_work_sums.sum_by_day(CLUSTER, final_before=at(0)) == {}


def steps_of(store, *saved, minute, looked):
    found = [
        make_checkpoint(f"step-{n}.pt", written, step=n, identities=(FileIdentity(1, written, 10, written),))
        for n, written in saved
    ]
    attempts = store.histories.read(CLUSTER, [RUN])[0].attempts
    scan(store, minute, *found, attempts=attempts, looked=looked)


def restart_from_nothing(store):
    """Steps 1 to 4, four minutes each; then a requeue that writes step 1 again."""
    job = run_job(store, started_at=at(0))
    steps_of(store, (1, 4), (2, 8), (3, 12), (4, 16), minute=17, looked=0)
    poll(store, 18, replace(job, state=STATES.PENDING, restart_count=1, submitted_at=at(18)))
    poll(store, 20, replace(job, restart_count=1, submitted_at=at(18), started_at=at(20)))
    steps_of(store, (1, 4), (2, 8), (3, 12), (4, 16), minute=21, looked=18)
    return job


def redone_of(store):
    (line,) = store.lost_work.list_lines(RUN)
    return line.redone


@pytest.mark.filled_by(record=restart_from_nothing)
def test_until_a_restart_has_saved_nobody_claims_that_work_is_computed_again(store):
    assert (redone_of(store).low, redone_of(store).certainty) == (None, Certainty.UNKNOWN)
    (total,) = store.lost_work_sums.sum_by_day(CLUSTER)[at(0).date()].values()
    assert (total.redone_unknown_count, total.redone_high_seconds) == (1, 0)


@pytest.mark.filled_by(record=restart_from_nothing)
def test_a_restart_that_did_not_resume_computes_saved_work_again(store):
    steps_of(store, (1, 24), (2, 8), (3, 12), (4, 16), minute=25, looked=21)
    assert (redone_of(store).low, redone_of(store).high) == (timedelta(minutes=16), timedelta(minutes=16))
    (total,) = store.lost_work_sums.sum_by_day(CLUSTER)[at(0).date()].values()
    seconds = 16 * 60
    assert (total.redone_seconds, total.redone_node_seconds) == (seconds, 2 * seconds)
    assert (total.redone_cpu_seconds, total.redone_gpu_seconds) == (8 * seconds, seconds)
    assert (total.redone_high_seconds, total.redone_high_node_seconds) == (seconds, 2 * seconds)
    assert (total.redone_high_cpu_seconds, total.redone_high_gpu_seconds) == (8 * seconds, seconds)
    assert minutes_lost(store) == [2], "what was not saved is told apart"


@pytest.mark.filled_by(record=restart_from_nothing)
def test_a_restart_that_resumed_computes_nothing_again(store):
    steps_of(store, (1, 4), (2, 8), (3, 12), (4, 16), (5, 24), minute=25, looked=21)
    assert (redone_of(store).low, redone_of(store).high) == (timedelta(0), timedelta(0))


def test_the_only_attempt_of_a_run_is_computed_once(store):
    poll(store, 21, timed_out(JOB))
    assert redone_of(store).high == timedelta(0)


def test_data_beside_states_save_no_work(store):
    state = make_checkpoint("epoch_1.pt", written=8, role=Role.STATE)
    scan(store, 19, state, make_checkpoint("sample_1.npz", written=18, role=Role.DATA))
    poll(store, 21, timed_out(JOB))
    assert minutes_lost(store) == [12]


def test_data_do_not_hide_the_states_of_a_run_from_rules(store, monkeypatch):
    monkeypatch.setattr(history_rows, "CHECKPOINT_LIMIT", 2)
    states = [make_checkpoint(f"epoch_{each}.pt", written=each, role=Role.STATE) for each in (2, 3, 4)]
    data = [make_checkpoint(f"sample_{each}.npz", written=each, role=Role.DATA) for each in range(5, 12)]
    scan(store, 5, *states)
    scan(store, 19, *states, *data)
    (history,) = store.histories.read(CLUSTER)
    names = {each.checkpoint.path.name for each in history.checkpoints}
    assert {"epoch_3.pt", "epoch_4.pt"} <= names


def fail_to_read(store):
    problem = Unknown(what="directory", reason="Permission denied")
    store.checkpoints.record_scans([ScanRecord(run=RUN, scan=problem)])


def test_work_is_not_claimed_lost_where_its_saves_may_have_been_deleted_before_the_directory_could_be_read(store):
    fail_to_read(store)
    poll(store, 21, replace(JOB, state=STATES.PENDING, restart_count=1, submitted_at=at(20)))
    fail_to_read(store)
    poll(store, 23, replace(JOB, restart_count=1, submitted_at=at(20), started_at=at(22.5)))
    scan(store, 25)
    (line,) = store.lost_work.list_lines(RUN)
    assert (line.loss.lost, line.loss.most, line.is_final) == (timedelta(0), timedelta(minutes=21), False)


def test_only_what_was_saved_after_the_last_scan_may_have_been_deleted(store):
    scan(store, 5, make_checkpoint(written=4))
    fail_to_read(store)
    poll(store, 31, replace(JOB, state=STATES.PENDING, restart_count=1, submitted_at=at(30)))
    poll(store, 32, replace(JOB, restart_count=1, submitted_at=at(30), started_at=at(31.5)))
    scan(store, 35)
    (line,) = store.lost_work.list_lines(RUN)
    assert (line.loss.lost, line.loss.most) == (timedelta(0), timedelta(minutes=26))


def test_work_is_lost_where_the_directory_was_read_until_shortly_before_the_restart(store):
    scan(store, 15)
    poll(store, 21, replace(JOB, state=STATES.PENDING, restart_count=1, submitted_at=at(20)))
    poll(store, 23, replace(JOB, restart_count=1, submitted_at=at(20), started_at=at(22.5)))
    scan(store, 25)
    (line,) = store.lost_work.list_lines(RUN)
    assert (line.loss.lost, line.loss.most, line.is_final) == (timedelta(minutes=21), timedelta(minutes=21), True)


@pytest.mark.filled_by(record=None)
def test_what_a_training_saves_is_not_what_an_evaluation_beside_it_has_saved(store):
    train = make_job(1, name="train", node_count=2)
    poll(store, 0, train)
    locate(store, 1, RUN)
    scan(store, 5, make_checkpoint("a.pt", written=4))
    evaluation = make_job(2, name="evaluate", started_at=at(6))
    poll(store, 6, train, evaluation)
    locate(store, 2, RUN)
    saves = make_checkpoint("a.pt", written=4), make_checkpoint("b.pt", written=14)
    scan(store, 15, *saves)
    failed = replace(evaluation, state=STATES.NODE_FAIL, ends_at=at(20))
    poll(store, 21, train, failed)
    scan(store, 22, *saves)
    (line,) = store.lost_work.list_lines(RUN)
    assert (line.attempt[0].job_id, line.loss.saved_at) == (2, None)
    assert (line.loss.lost, line.loss.most) == (timedelta(0), timedelta(minutes=14))
    assert (line.redone.low, line.redone.high) == (timedelta(0), timedelta(0))
    poll(store, 31, replace(train, state=STATES.TIMEOUT, ends_at=at(30)))
    scan(store, 32, *saves)
    ended = {line.attempt[0].job_id: line for line in store.lost_work.list_lines(RUN)}
    assert ended[1].loss.lost == timedelta(minutes=16)
