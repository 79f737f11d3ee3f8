"""What a real cluster does to jobs, and what the record says of it: attempts, kinds, causes and the ledger.

One private cluster of four nodes with GPUs of two models for this file. Every instant of the ledger is compared with
`sacct --duplicates`.
"""

import os
import re
import shutil
from datetime import timedelta

import pytest

from ckptd.core.model import EndCause, RestartKind
from ckptd.core.queue.poll_gaps import BackfillWindow
from ckptd.core.runs import suspension
from ckptd.metrics.bounded_names import BoundedNames
from ckptd.metrics.lost_work_metrics import collect_losses
from ckptd.slurm.commands import format_signal
from ckptd.slurm.programs import Programs
from ckptd.slurm.squeue import SqueueSource
from ckptd.steps.end_recheck import UnconfirmedEnds
from ckptd.steps.missed_jobs import MissedJobs
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.publish import LOSS_FINAL_AGE, LostWorkTotals
from demo.cluster import PrivateCluster
from integration.ledger_jobs import HERE, SLEEP, break_off, make_saver, wait_for_restarts
from integration.watch import (
    Forgetful,
    Watch,
    assert_ledger_equals_accounting,
    is_start_accounted,
    let_starts_settle,
    now,
    read_accounting,
)

SIGNALLED = "#!/bin/bash\ntrap 'touch said' USR1\nwhile true; do sleep 0.2; done\n"
HOSTILE = "a|b\n1|1|0|COMPLETED|0|0|1\x1f"  # looks like the end of a field and a row


@pytest.fixture(scope="module")
def slurm():
    with PrivateCluster(
        name="ledger",
        nodes=4,
        gpus_per_node={"a100": 4, "v100": 1},
        user_prefix=f"ckl{os.getpid()}-",
        with_accounting=True,
    ) as private:
        yield private


@pytest.fixture(scope="module")
def user(slurm):
    yield slurm.create_user("u")
    slurm.cancel_all()


@pytest.fixture(scope="module")
def blind(slurm):
    """One that looks whenever the other does, on a host without sacct."""
    programs = slurm.directory / "without-accounting"
    programs.mkdir()
    for name in ("scontrol", "squeue"):
        (programs / name).symlink_to(shutil.which(name))
    watch = Watch(slurm, "blind", path=str(programs))
    yield watch
    watch.close()


@pytest.fixture(scope="module")
def away(slurm):
    """One that looked once, before anything ran, and comes back when all is over."""
    watch = Watch(slurm, "away", source=Forgetful, backfill_window=BackfillWindow(after=timedelta(seconds=1)))
    watch.turn()
    yield watch
    watch.close()


@pytest.fixture(scope="module")
def watch(slurm, blind, away):
    watch = Watch(slurm, "seeing", beside=(blind,))
    yield watch
    watch.close()


@pytest.fixture(scope="module")
def submit(slurm, user, watch):
    """Submit into a directory of its own; return the job once the daemon has seen it run."""

    def submit(script, *options, directory, is_seen=True):
        work_dir = user.home / directory
        if not work_dir.exists():
            work_dir.mkdir()
            os.chown(work_dir, user.uid, user.gid)
        job = slurm.submit(user, script, *options, work_dir=work_dir)
        if is_seen:
            watch.wait(f"job {job} to be seen running", lambda: watch.attempts(job))
            # Slurm loses the end of a job that is requeued before accounting has heard of its start
            slurm.wait_for(f"accounting to know the start of job {job}", lambda: is_start_accounted(slurm, job))
        return job

    return submit


@pytest.fixture(scope="module", autouse=True)
def broken_off(slurm, user, watch, submit):
    return break_off(slurm, user, watch, submit)


@pytest.fixture(scope="module")
def saver(slurm):
    return make_saver(slurm)


def test_a_requeue_by_hand(watch, broken_off):
    job = broken_off["requeued"]
    assert [each.kind for each in watch.attempts(job)] == [None, RestartKind.REQUEUE]
    watch.wait("accounting to agree", lambda: not watch.state.latest(UnconfirmedEnds).count)
    (line,) = assert_ledger_equals_accounting(watch, job)
    assert line.cause is EndCause.REQUEUE


def test_gpus_with_a_model_are_counted_once(watch, slurm, broken_off):
    job = broken_off["requeued"]
    text = slurm.command("sacct", "-nPX", "--duplicates", f"--jobs={job}", "--format=AllocTRES")
    assert [sorted(re.findall(r"gres/gpu[^,]*", tres)) for tres in text.splitlines()] == [
        ["gres/gpu:a100=2", "gres/gpu=2"],
        ["gres/gpu:a100=2", "gres/gpu=2"],
    ]
    assert [each.gpu_count for each in watch.attempts(job)] == [2, 2]
    assert [
        known.job.gpu_count for known in watch.state.latest(PolledQueue).tracked.values() if known.key.job_id == job
    ] == [2]


def test_the_parts_of_a_heterogeneous_job_are_one_line_of_all_their_nodes_and_gpus(watch, slurm, broken_off):
    job = broken_off["parts"]
    watch.wait("accounting to agree", lambda: not watch.state.latest(UnconfirmedEnds).count)
    (line,) = assert_ledger_equals_accounting(watch, job)
    assert line.cause is EndCause.REQUEUE
    first = watch.attempts(job)[0]
    assert (first.node_count, first.cpu_count, first.gpu_count) == (2, 3, 3)
    (told,) = watch.parts.source.read_ended([job], first.started_at)  # what fills in an execution that nobody saw
    assert (told.node_count, told.cpu_count, told.gpu_count) == (2, 3, 3)
    assert (told.started_at, told.ended_at, told.node_list) == (first.started_at, line.ended_at, "n3,n4")
    assert watch.attempts(job + 1) == []


def test_a_preemption_by_a_higher_partition(watch, broken_off):
    job = broken_off["preempted"]
    assert watch.attempts(job)[1].kind is RestartKind.REQUEUE
    (line,) = assert_ledger_equals_accounting(watch, job)
    assert line.cause is EndCause.PREEMPTION


def test_a_node_that_fails(watch, broken_off):
    job = broken_off["failed"]
    assert watch.attempts(job)[1].kind is RestartKind.REQUEUE
    line, *more = assert_ledger_equals_accounting(watch, job)
    assert line.cause is EndCause.NODE_FAILURE
    # where the node comes back late, what still runs there of the first attempt keeps the second from being launched:
    # Slurm requeues that one again, and holds the job; or it ends, and accounting calls that a failure
    assert [each.cause for each in more] in ([], [EndCause.REQUEUE], [EndCause.FAILURE])


def test_time_in_which_a_job_was_suspended_is_not_lost(watch, slurm, broken_off):
    job = broken_off["suspended"]
    watch.wait("it to run again", lambda: watch.attempts(job)[0].suspensions[-1].ended_at)
    slurm.command("scontrol", "suspend", str(job))
    watch.wait("the second suspension", lambda: watch.attempts(job)[0].suspensions[-1].ended_at is None)
    slurm.command("scontrol", "resume", str(job))
    watch.wait("it to run again", lambda: watch.attempts(job)[0].suspensions[-1].ended_at)
    slurm.command("scancel", str(job))
    watch.wait("its end", lambda: watch.causes(job) == [EndCause.CANCEL])
    watch.wait("accounting to agree", lambda: not watch.state.latest(UnconfirmedEnds).count)
    (row,) = read_accounting(slurm, job)
    assert row.suspended > timedelta(seconds=5)
    assert_ledger_equals_accounting(watch, job)


def test_a_cancel(watch, slurm, submit):
    job = submit(SLEEP, "--nodelist=n3", f"--job-name={HOSTILE}", f"--comment={HOSTILE} ckpt=.", directory="cancelled")
    slurm.command("scancel", str(job))
    watch.wait("its end", lambda: watch.causes(job) == [EndCause.CANCEL])
    slurm.wait_for("accounting to have it", lambda: read_accounting(slurm, job))
    assert_ledger_equals_accounting(watch, job)


def test_what_was_saved_is_not_lost_and_a_job_submitted_by_hand_goes_on_in_the_same_run(watch, slurm, submit, saver):
    job = submit(saver, "--nodelist=n3", "--comment=ckpt=ckpt", directory="by-hand")
    watch.wait("two saves", lambda: any(len(h.checkpoints) > 1 for h in histories(watch, job)))
    slurm.command("scancel", str(job))
    watch.wait("its end, settled", lambda: [line.is_final for line in watch.lines(job)] == [True])
    second = submit(saver, "--nodelist=n3", "--comment=ckpt=ckpt", directory="by-hand")
    watch.wait("the run to have both", lambda: len(histories(watch, second)[0].attempts) == 2)
    assert [each.kind for each in histories(watch, second)[0].attempts] == [None, RestartKind.RESUBMIT]
    (line,) = assert_ledger_equals_accounting(watch, job)
    saves = [
        record.completed_at
        for record in histories(watch, job)[0].checkpoints
        if record.completed_at <= line.ended_at or record.attempt == line.attempt
    ]
    # Slurm's end is a whole second: what was saved within that second may count or not
    assert line.loss.saved_at in [each for each in saves if each <= line.ended_at + timedelta(seconds=1)][-2:]
    assert line.loss.lost < timedelta(seconds=5)


def histories(watch, job):
    keys = watch.parts.store.runs.find_of_job(job)
    return [history for key in keys for history in watch.parts.store.histories.read("ledger", [key])]


def test_tasks_of_an_array_with_one_slot(watch, slurm, submit, saver):
    script = saver.replace("seq 1000", "seq 3")
    first = submit(script, "--array=1-2%1", "--nodelist=n3", "--comment=ckpt=ckpt", directory="array")
    watch.wait(
        "both tasks to end", lambda: len(tasks(watch, first)) == 2 and all(t.ended_at for t in tasks(watch, first))
    )
    found = tasks(watch, first)
    assert [each.kind for each in found] == [None, RestartKind.ARRAY]
    for each in found:
        slurm.wait_for("accounting to have it", lambda job=each.job.job_id: read_accounting(slurm, job))
        (line,) = assert_ledger_equals_accounting(watch, each.job.job_id)
        assert (line.cause, line.loss.lost) == (EndCause.COMPLETED, timedelta(0))


def tasks(watch, array):
    return [each for key in watch.parts.store.runs.find_of_job(array)
            for history in watch.parts.store.histories.read("ledger", [key])
            for each in history.attempts if each.array_job_id == array]  # fmt: skip


def test_what_happened_while_the_daemon_was_stopped_is_caught_up(watch, blind, slurm, user, submit, saver):
    requeued = submit(SLEEP, HERE, "--requeue", "--nodelist=n3", directory="away-requeued")
    cancelled = submit(SLEEP, HERE, "--nodelist=n3", directory="away-cancelled")
    preempted = submit(SLEEP, HERE, "--requeue", "--nodelist=n1", directory="away-preempted")
    let_starts_settle(slurm, requeued, cancelled, preempted)  # from here on nobody looks
    slurm.command("scontrol", "requeue", str(requeued))
    slurm.command("scancel", str(cancelled))
    urgent = slurm.submit(user, SLEEP, "--partition=urgent", "--nodelist=n1", "--exclusive")
    unseen = submit(saver, "--nodelist=n3", "--comment=ckpt=ckpt", directory="away-unseen", is_seen=False)
    wait_for_restarts(slurm, requeued, 1)
    saves = user.home / "away-unseen/ckpt"
    slurm.wait_for("two saves", lambda: saves.is_dir() and len(list(saves.iterdir())) > 1)
    let_starts_settle(slurm, requeued)
    slurm.command("scancel", str(unseen))
    slurm.command("scontrol", "requeue", str(requeued))
    wait_for_restarts(slurm, requeued, 2)
    slurm.wait_for("the preemption", lambda: slurm.read_job(urgent, "%T") == "RUNNING")
    slurm.command("scancel", str(urgent))
    wait_for_restarts(slurm, preempted, 1)
    slurm.wait_for("accounting", lambda: [len(read_accounting(slurm, job)) for job in (requeued, preempted)] == [2, 1])
    watch.start()
    watch.turn()
    assert watch.causes(requeued) == [EndCause.REQUEUE, EndCause.REQUEUE, None]
    assert watch.causes(cancelled) == [EndCause.CANCEL]
    assert watch.causes(preempted) == [EndCause.PREEMPTION, None]
    for job in (requeued, cancelled, preempted):
        assert_ledger_equals_accounting(watch, job)
    watch.wait("what nobody saw to be looked at", lambda: [line.is_final for line in watch.lines(unseen)] == [True])
    (line,) = assert_ledger_equals_accounting(watch, unseen)
    assert line.loss.saved_at is not None
    # without accounting what ran unseen is counted by Slurm, and nobody knows how it ended
    assert [(each.restart_count, each.cause) for each in blind.attempts(requeued)] == [(0, EndCause.REQUEUE), (2, None)]
    assert blind.causes(cancelled) == [EndCause.CANCEL]
    assert [each.restart_count for each in blind.attempts(preempted)] == [0, 1]


def test_a_time_limit(watch, slurm, broken_off):
    job = broken_off["limited"]
    watch.wait("its end", lambda: watch.causes(job) == [EndCause.TIME_LIMIT])
    slurm.wait_for("accounting to have it", lambda: read_accounting(slurm, job))
    assert_ledger_equals_accounting(watch, job)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("requeued", EndCause.REQUEUE),
        ("preempted", EndCause.PREEMPTION),
        ("failed", EndCause.NODE_FAILURE),
        ("suspended", EndCause.CANCEL),
        ("limited", EndCause.TIME_LIMIT),
        ("parts", EndCause.REQUEUE),
    ],
)
def test_without_accounting_the_queue_tells_nearly_the_same(watch, blind, broken_off, name, cause):
    job = broken_off[name]
    attempts = blind.attempts(job)
    assert [(each.restart_count, each.kind, each.started_at) for each in attempts] == [
        (each.restart_count, each.kind, each.started_at) for each in watch.attempts(job)
    ]
    first, row = attempts[0], min(read_accounting(watch.slurm, job), key=lambda row: row.started_at)
    # a waiting job does not show why it was requeued
    assert first.cause in ({cause, EndCause.REQUEUE} if len(attempts) > 1 else {cause})
    assert abs(first.ended_at - row.ended_at) <= timedelta(seconds=2)
    assert abs(suspension.total(first.suspensions, first.ended_at) - row.suspended) <= timedelta(seconds=2)


def test_one_that_was_away_all_the_time_knows_as_much_afterwards_as_one_that_looked(watch, away, slurm):
    """Jobs that began, ended and were forgotten, all the others of this file, are told by accounting alone."""
    watch.wait("accounting to agree", lambda: not watch.state.latest(UnconfirmedEnds).count)
    histories = watch.parts.store.histories.read("ledger")
    # what preempts others is not compared: it has no place of its own for checkpoints
    jobs = sorted({each.job.job_id for each in attempts_of(histories) if each.partition == "main"})
    for job in jobs:
        count = sum(1 for each in watch.attempts(job) if each.ended_at)
        slurm.wait_for("accounting", lambda job=job, count=count: count == len(read_accounting(slurm, job)))
    away.start()
    away.wait(
        "all that was missed to be found",
        lambda: not away.state.latest(MissedJobs).gap and not away.state.latest(MissedJobs).jobs,
    )
    for job in jobs:
        assert list(map(told_of, away.attempts(job))) == list(map(told_of, watch.attempts(job)))
        assert_ledger_equals_accounting(away, job)
        [mine], [other] = (each.parts.store.backfill.read_recorded_jobs("ledger", [job])[job] for each in (away, watch))
        assert [getattr(mine.known.job, name) for name in STEADY] == [getattr(other.known.job, name) for name in STEADY]
    assert HOSTILE in {
        away.parts.store.backfill.read_recorded_jobs("ledger", [job])[job][0].known.job.name for job in jobs
    }
    assert sum(history.key.is_located for history in away.parts.store.histories.read("ledger")) == sum(
        history.key.is_located for history in histories
    )


STEADY = ("user", "uid", "account", "partition", "qos", "name", "work_dir", "comment", "time_limit", "array_task_id")


def attempts_of(histories):
    return (each for history in histories for each in history.attempts)


def told_of(attempt):
    counts = attempt.node_count, attempt.cpu_count, attempt.gpu_count
    return attempt.restart_count, attempt.kind, attempt.cause, attempt.started_at, attempt.ended_at, counts


def test_the_days_sum_is_that_of_the_lines(watch):
    lines = [
        line
        for history in watch.parts.store.histories.read("ledger")
        for line in watch.parts.store.lost_work.list_lines(history.key)
    ]
    days = watch.parts.store.lost_work_sums.sum_by_day("ledger")
    total = sum(each.seconds for day in days.values() for each in day.values())
    assert total == pytest.approx(sum(line.loss.lost.total_seconds() for line in lines))
    assert lines


def test_the_metric_of_lost_gpu_time_is_what_accounting_says_of_the_jobs_with_gpus(watch, slurm, broken_off):
    """None of them saved anything, so all their time is lost; what is cancelled here is an exclusive node's."""
    summed = LostWorkTotals()
    summed.refresh(watch.parts.store, "ledger", now() + LOSS_FINAL_AGE, watch.state)
    told = {
        sample.labels["cause"]: sample.value
        for metric in collect_losses(summed.totals, BoundedNames(1), BoundedNames(1))
        for sample in metric.samples
        if sample.name == "ckptd_lost_gpu_seconds_total" and sample.value
    }
    expected = {
        cause.value: sum(
            (row.ended_at - row.started_at).total_seconds() * row.gpu_count
            for name in names
            for row in read_accounting(slurm, broken_off[name])
        )
        for cause, names in ((EndCause.TIME_LIMIT, ["limited"]), (EndCause.REQUEUE, ["requeued", "parts"]))
    }
    assert {cause: told.get(cause) for cause in expected} == expected
    assert all(expected.values())


def test_of_a_federation_only_what_runs_here_counts_and_signals_go_where_a_job_runs(watch, slurm, user):
    with PrivateCluster(name="other", nodes=1, with_accounting=slurm) as other:
        slurm.command("sacctmgr", "--immediate", "add", "federation", "both", "clusters=ledger,other")
        for each in (slurm, other):
            each.wait_for(
                "both to be one", lambda on=each: "Synced:Yes" in on.command("scontrol", "show", "federation")
            )
        slurm.command("scontrol", "update", "PartitionName=main", "State=DOWN")  # what is submitted begins on the other
        theirs = [other.submit(user, SLEEP) for _ in range(2)]
        ours = slurm.submit(user, SIGNALLED)
        here = SqueueSource(programs=Programs(environment={**os.environ, **other.environment}))

        def running():
            return {job.job_id: job for job in here.read_queue(now()).jobs if job.is_running}

        other.wait_for("all to run there", lambda: running().keys() == {*theirs, ours})
        revoked = sorted([str(ours), "4294967294", "4294967294"])
        listing = ("squeue", "--local", "--noheader", "--states=REVOKED", "--format=%A")
        slurm.wait_for("all to be revoked here", lambda: sorted(slurm.command(*listing).split()) == revoked)
        watch.turn()
        assert watch.state.latest(PolledQueue).jobs_by_state["REVOKED"] == 1
        assert watch.state.latest(PolledQueue).slurm_trouble is None
        assert not watch.state.latest(PolledQueue).tracked.keys() & {*theirs, ours, 4294967294}
        slurm.wait_for("its handler to stand", (user.home / f"slurm-{ours}.out").exists)
        other.command(*format_signal(running()[ours], "B:USR1"), user=user)
        slurm.wait_for("the signal", (user.home / "said").exists)
        other.command("scancel", f"--user={user.name}")
        other.wait_for("their end", lambda: not running())
        slurm.command("sacctmgr", "--immediate", "delete", "federation", "both")
