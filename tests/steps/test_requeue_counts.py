"""What one user's jobs do by themselves does not look like the cluster's trouble."""

from dataclasses import replace

from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.fleet import per_user_cap
from ckptd.core.model import RestartKind, RunKey, Scan, Unknown
from ckptd.core.queue import TrackedJob
from ckptd.steps import requeue_counts
from core.histories import RUN, START, at, attempt, job

HUNG = Unknown(what="agent", reason="it did not answer in time")


def begun(number, uid, minutes, **changes):
    """A requeued job that began again, and its attempt."""
    began = replace(attempt(minutes, job_id=number, restart_count=1), **changes)
    tracked = TrackedJob(key=began.job, job=job(number, uid=uid), attempt=began, run=None, last_seen_at=at(minutes))
    return began, tracked


def count(restarts, now):
    starts = requeue_counts.RequeueStarts()
    for attempted, tracked in restarts:
        starts = starts.with_started([attempted], [tracked], now)
    return starts.count(now)


def test_of_one_user_only_so_many_restarts_count_and_of_several_users_all_of_them():
    assert count([begun(number, 1000, 1) for number in range(500)], at(2)) == requeue_counts.MOST_OF_ONE
    assert count([begun(number, 1000 + number, 1) for number in range(500)], at(2)) == 500


def test_a_restart_counts_for_half_an_hour_after_it_began_whenever_it_was_seen():
    restarts = [begun(1, 1000, 0), begun(2, 1001, 25), begun(3, 1002, -600)]
    assert [count(restarts, at(minutes)) for minutes in (26, 31, 60)] == [2, 1, 0]


def test_first_attempts_next_tasks_and_resubmissions_are_no_requeues():
    kinds = (None, RestartKind.ARRAY, RestartKind.RESUBMIT, RestartKind.REQUEUE)
    assert count([begun(number, 1000, 1, kind=kind) for number, kind in enumerate(kinds)], at(2)) == 1


def test_users_are_counted_whose_directories_could_not_be_read_not_those_whose_names_are_wrong():
    doubtful = Scan(
        directory=RUN.directory,
        scanned_at=START,
        checkpoints=(),
        problems=(Unknown(what="search", reason="not theirs"),),
    )
    rival = Unknown(what="search", reason="job 2 could have written it, too")
    looks = [(1000, HUNG), (1000, HUNG), (1001, doubtful), (1002, rival), (1003, None)]
    watched = [
        WatchedRun(key=RunKey("c1", uid, f"job:{number}@x"), due_at=START, last=last)
        for number, (uid, last) in enumerate(looks)
    ]
    assert per_user_cap.count_unreadable_directory_users(watched) == 1
    other = WatchedRun(key=RunKey("c1", 1001, "/scratch/other"), due_at=START, last=HUNG)
    assert per_user_cap.count_unreadable_directory_users([*watched, other]) == 2
