"""The sums over the fleet, by hand on small histories."""

from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.core.fleet import fleet_totals
from ckptd.core.model import CheckpointState, JobState, Scan, Unknown
from core.histories import RUN, at, attempt, history, job, saved
from support.run_builder import change

BIG = job(partition="gpu", node_count=2, cpu_count=64, gpu_count=8)


@pytest.mark.parametrize(
    ("checkpoints", "newest"),
    [
        ([], "none"),
        ([saved(10)], "complete"),
        ([saved(10), saved(20, state=CheckpointState.DAMAGED)], "damaged"),
        ([saved(10, state=CheckpointState.DAMAGED), saved(20)], "complete"),
        ([saved(10), saved(20, state=CheckpointState.WRITING)], "complete"),
        ([saved(20, state=CheckpointState.WRITING)], "writing"),
        ([saved(20, state=CheckpointState.UNKNOWN)], "unknown"),
        ([saved(10, gone=15)], "none"),
    ],
)
def test_a_running_run_is_judged_by_what_a_restart_would_find(checkpoints, newest):
    summed = fleet_totals.sum_up([history(now=30, checkpoints=checkpoints)], at(30))
    assert {name for name, count in summed.runs_by_newest.items() if count} == {newest}


@pytest.mark.parametrize(
    "scan",
    [
        None,
        Unknown(what="directory", reason="gone"),
        Scan(
            directory=PurePosixPath("/x"),
            scanned_at=at(0),
            checkpoints=(),
            problems=(Unknown(what="x", reason="denied"),),
        ),
    ],
)
def test_what_could_not_be_read_is_unknown_and_not_none(scan):
    summed = fleet_totals.sum_up([history(now=30, scan=scan)], at(30))
    assert summed.runs_by_newest["unknown"] == 1
    assert summed.runs_by_newest["none"] == 0


def test_unsaved_work_counts_from_the_newest_complete_checkpoint():
    summed = fleet_totals.sum_up([history(now=60, jobs=[BIG], checkpoints=[saved(20), saved(50)])], at(60))
    share = summed.shares_by_partition["gpu"]
    assert (share.jobs, share.nodes, share.cpus, share.gpus) == (1, 2, 64, 8)
    assert share.unsaved_gpu_seconds == 600 * 8
    assert share.unsaved_node_seconds == 600 * 2
    assert summed.age_seconds.total == 600


def test_unsaved_work_counts_from_the_start_of_an_attempt_that_has_not_saved():
    attempts = [attempt(0, 30), attempt(40, restart_count=1)]
    restarted = replace(BIG, restart_count=1, started_at=at(40))
    summed = fleet_totals.sum_up(
        [history(now=60, jobs=[restarted], attempts=attempts, checkpoints=[saved(20)])], at(60)
    )
    assert summed.shares_by_partition["gpu"].unsaved_gpu_seconds == 1200 * 8
    assert summed.age_seconds.total == 2400


def test_jobs_that_do_not_run_have_no_age_and_no_unsaved_work_but_their_checkpoints_count():
    waiting = replace(BIG, state=JobState.PENDING)
    summed = fleet_totals.sum_up([history(now=60, jobs=[waiting], checkpoints=[saved(20)])], at(60))
    assert not summed.shares_by_partition
    assert summed.age_seconds.count == 0
    assert summed.checkpoints_by_format == {("torch", "complete"): 1}
    assert summed.bytes_by_format == {"torch": 100}


def test_time_left_is_counted_to_now_and_no_limit_is_no_number():
    limited = job(ends_at=at(70), time_limit=timedelta(minutes=70))
    unlimited = job(job_id=2, time_limit=None, ends_at=None)
    summed = fleet_totals.sum_up([history(now=60, jobs=[limited, unlimited])], at(60))
    assert summed.left_seconds.total == 600
    assert (summed.left_seconds.count, summed.jobs_without_limit) == (1, 1)


def test_each_file_system_counts_with_the_least_free_space_that_a_scan_found():
    def run(free, total, kind, directory="/work/x"):
        scan = Scan(
            directory=PurePosixPath(directory),
            scanned_at=at(0),
            checkpoints=(),
            free_bytes=free,
            total_bytes=total,
            filesystem_type=kind,
        )
        return history(scan=scan)

    runs = [run(50, 100, "nfs4"), run(90, 1000, "nfs4"), run(1, 2, "nfs4", "/home/x"), run(None, None, None)]
    shares = [fleet_totals.measure(each, lambda directory: str(directory.parent)) for each in runs]
    assert fleet_totals.add_up(shares, at(0)).space_by_filesystem == {
        fleet_totals.FileSystem("nfs4", "/work"): fleet_totals.FreeSpace(free_bytes=90, free_ratio=0.09),
        fleet_totals.FileSystem("nfs4", "/home"): fleet_totals.FreeSpace(free_bytes=1, free_ratio=0.5),
    }


def test_users_with_several_runs_count_once():
    runs = [history(key=RUN._replace(uid=uid, directory=f"/{n}")) for n, uid in enumerate((1000, 1000, 1001))]
    assert fleet_totals.sum_up(runs, at(0)).user_count == 2


def test_a_counter_names_the_new_mount_of_a_run_that_did_not_change():
    scan = Scan(
        directory=PurePosixPath("/work/x"),
        scanned_at=at(0),
        checkpoints=(),
        free_bytes=1,
        total_bytes=2,
        filesystem_type="nfs4",
    )
    counter, run = fleet_totals.FleetCounter(), history(scan=scan)
    for point in ("/", "/work"):
        summed = counter.sum_up([run], at(1), lambda _, point=point: point)
        assert [each.mount_point for each in summed.space_by_filesystem] == [point]


def test_a_counter_measures_only_replaced_histories_and_comes_to_the_same_totals(monkeypatch):
    measured = []
    measure = fleet_totals.measure

    def count(each, *find_mount):
        measured.append(each.key.directory)
        return measure(each, *find_mount)

    monkeypatch.setattr(fleet_totals, "measure", count)
    runs = {
        name: change(history(now=60, jobs=[BIG], checkpoints=[saved(20), saved(50)]), key=RUN._replace(directory=name))
        for name in ("/a", "/b", "/c")
    }
    counter = fleet_totals.FleetCounter()
    for minute in (60, 61):
        assert counter.sum_up(runs.values(), at(minute)) == fleet_totals.sum_up(runs.values(), at(minute))
    measured.clear()
    runs["/b"] = replace(runs["/b"], jobs=())
    del runs["/c"]
    totals = counter.sum_up(runs.values(), at(70))
    assert measured == ["/b"]
    assert totals == fleet_totals.sum_up(runs.values(), at(70))
