"""One test for each way in which pruning has lost somebody's work, somewhere."""

from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.core import retention
from ckptd.core.model import CheckpointState, FileIdentity, Grouping, JobState, RestartKind, RunKey, Scan, Unknown
from ckptd.core.retention import KeepBest, KeepEvery, KeepLast, KeepWithin
from core.retention_facts import (
    DIRECTORY,
    NOW,
    UID,
    attempt,
    grouping_of,
    hours,
    names,
    policy_of,
    removed,
    run_of,
    running_job,
    saved,
    series,
    skipped,
)


def test_old_checkpoint_is_not_deleted_before_the_new_one_is_complete():
    old = saved("step_100.pt", 5, step=100)
    older = saved("step_50.pt", 6, step=50)
    fresh = saved("step_200.pt", 0.2, step=200, state=CheckpointState.WRITING)
    assert "not finished" in skipped(run_of(older, old, fresh))
    abandoned = saved("step_200.pt", 4, step=200, state=CheckpointState.WRITING)
    assert removed(run_of(older, old, abandoned)) == {"step_50.pt"}
    damaged = saved("step_200.pt", 4, step=200, state=CheckpointState.DAMAGED, reason="cut off")
    assert removed(run_of(older, old, damaged)) == {"step_50.pt"}


def set_of(step, age, *names, **changes):
    """One checkpoint of several files, of which the first stands for it."""
    parts = tuple(saved(name, age, step=step).checkpoint for name in names)
    facts = {"files": names, "identities": tuple(part.identities[0] for part in parts), "parts": parts, **changes}
    return saved(names[0], age, step=step, size=100 * len(parts), **facts)


@pytest.mark.parametrize("name", ["notes.txt", "analysis.py", "readme.md", "figure.json"])
@pytest.mark.parametrize("is_moved_in", [False, True])
def test_a_checkpoint_with_a_file_that_a_person_put_into_it_stays(name, is_moved_in):
    kinds = ("model.pt", "config.json", "optimizer.pt")
    sets = []
    for n in (1, 2, 3, 4):
        facts = {"path": f"{DIRECTORY}/step_{n}", "grouping": grouping_of(f"step_{n}"), "parts": ()}
        sets.append(set_of(n, 20 - n, *(f"step_{n}/{kind}" for kind in kinds), **facts))
    found = sets[1].checkpoint
    saved_ns = found.identities[0].modified_ns
    later_ns = saved_ns + 3600 * 10**9
    note = FileIdentity(1, 999, 10, saved_ns - later_ns if is_moved_in else later_ns, later_ns)
    with_note = replace(found, files=(*found.files, f"step_2/{name}"), identities=(*found.identities, note))
    sets[1] = replace(sets[1], checkpoint=with_note)
    assert removed(run_of(*sets)) == {"step_1", "step_3"}
    made = retention.plan_run(run_of(*sets), policy_of(), NOW)
    (why,) = (each.reasons for each in made.keep if each.path.endswith("step_2"))
    assert why == (f"it contains files that are not of the checkpoint: {name}",)


def test_a_checkpoint_of_several_files_counts_once_and_goes_as_one():
    kinds = ("model", "optim", "rng")
    sets = [
        set_of(n, 20 - n, *(f"step_{n}_{kind}" for kind in kinds), grouping=grouping_of(f"step_{n}")) for n in (1, 2, 3)
    ]
    made = retention.plan_run(run_of(*sets), policy_of(KeepLast(2)), NOW)
    (going,) = made.remove
    assert going.record.checkpoint.files == ("step_1_model", "step_1_optim", "step_1_rng")
    assert made.remove_bytes == 300


def test_the_rank_in_a_name_counts_nothing_where_the_step_is_elsewhere():
    sets = [
        set_of(
            step,
            20 - step / 100,
            *(f"step_{step}/rank{rank}.pt" for rank in range(4)),
            path=f"{DIRECTORY}/step_{step}",
            grouping=grouping_of(f"step_{step}", is_directory=True),
        )
        for step in (100, 200, 300)
    ]
    made = retention.plan_run(run_of(*sets), policy_of(KeepLast(2)), NOW)
    assert [len(one.record.checkpoint.files) for one in made.keep] == [4, 4]
    assert names(made.remove) == {"step_100"}


def test_a_set_of_fixed_names_that_each_save_overwrites_stays_whole():
    ranks = set_of(500, 3, *(f"ckpt_rank{rank}.pt" for rank in range(4)), grouping=Grouping())
    made = retention.plan_run(run_of(ranks), policy_of(KeepLast(1)), NOW)
    assert not made.remove
    assert "alone in its series" in " ".join(made.keep[0].reasons)


def test_checkpoint_10_is_newer_than_checkpoint_9():
    nine, ten = saved("checkpoint-9", 4, step=9), saved("checkpoint-10", 4, step=10)
    assert removed(run_of(ten, nine)) == {"checkpoint-9"}


def test_keep_one_with_best_and_last_being_different_keeps_both():
    one, two, three = (saved(f"epoch_{n}.pt", 20 - n, epoch=n, is_best=n == 2 or None) for n in (1, 2, 3))
    assert removed(run_of(one, two, three), policy_of(KeepLast(1), KeepBest(1))) == {"epoch_1.pt"}


def test_a_fresh_run_in_an_old_directory_does_not_lose_its_new_files_to_old_high_steps():
    old = [saved(f"step_{n}.pt", 400 - n / 100, step=n, by=(1, 0)) for n in (9000, 9500, 10000)]
    new = [saved(f"step_{n}.pt", 20 - n / 100, step=n, by=(2, 0)) for n in (100, 200, 300)]
    attempts = [attempt(begun=500, ended=290), attempt(job=2, begun=30, kind=RestartKind.RESUBMIT)]
    gone = removed(run_of(*old, *new, attempts=attempts), policy_of(KeepLast(2)))
    assert gone == {"step_9000.pt", "step_9500.pt", "step_100.pt"}  # 10000 is the furthest that there is
    gone = removed(run_of(*old, *new, attempts=attempts), policy_of(KeepEvery(100, "steps")))
    assert gone == set()


def test_checkpoints_of_other_runs_in_a_shared_parent_are_left_alone():
    mine = series(4)
    other = [saved(f"b/step_{n}.pt", 30, step=n) for n in (1, 2)]
    gone = removed(run_of(*mine, *other), nested=(f"{DIRECTORY}/b",))
    assert gone == {"step_100.pt", "step_200.pt", "step_300.pt"}
    runs = [(run_of(*mine, *other), policy_of()), (run_of(directory=f"{DIRECTORY}/b"), policy_of())]
    assert names(retention.plan(runs, NOW).runs[0].remove) == gone


def test_two_runs_with_the_same_directory_are_left_alone():
    run = run_of(*series(4))
    other = replace(run, key=RunKey("other", UID, DIRECTORY))
    made = retention.plan([(run, policy_of()), (other, policy_of())], NOW)
    assert [one.skipped for one in made.runs] == ["another run has the same directory"] * 2


def test_other_experiments_in_one_directory_each_keep_their_newest():
    folds = [saved(f"fold{fold}_epoch{n}.pt", 40 - n - fold, epoch=n) for fold in (1, 2) for n in (7, 8, 9)]
    gone = removed(run_of(*folds))
    assert {"fold1_epoch9.pt", "fold2_epoch9.pt"}.isdisjoint(gone)
    uneven = [one for one in folds if one.checkpoint.path.name not in {"fold1_epoch9.pt", "fold1_epoch8.pt"}]
    assert "fold1_epoch7.pt" not in removed(run_of(*uneven))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"by": None}, "no job of this run was seen writing it"),
        ({"by": (9, 0)}, "not in the record of this run"),
        ({"owner_uids": frozenset({UID, 1})}, "belong to someone else"),
        ({"owner_uids": frozenset()}, "belong to someone else"),
        ({"completed_at": NOW - hours(50)}, "changed after it was complete"),
        ({"files": (), "identities": ()}, "not all of its files"),
    ],
)
def test_what_ckptd_did_not_see_the_run_write_is_neither_removed_nor_counted(changes, why):
    planted = [saved(f"step_{n}.pt", 3, step=n, **changes) for n in (900, 901, 902)]
    made = retention.plan_run(run_of(*series(3), *planted), policy_of(), NOW)
    assert names(made.remove) == {"step_100.pt", "step_200.pt"}
    assert all(why in one.reasons[0] for one in made.keep if one.path.endswith(("900.pt", "901.pt", "902.pt")))


def test_planted_recent_files_do_not_push_out_good_ones():
    good = series(3)
    planted = [saved(f"step_{n}.pt", 2, step=n, by=None) for n in range(1000, 1010)]
    assert removed(run_of(*good, *planted), policy_of(KeepLast(2))) == {"step_100.pt"}


def test_finished_checkpoints_taken_for_temporaries_are_not_removed():
    every = [
        saved(f"{n}.orbax-checkpoint-tmp-1", 50 - n, step=n, state=CheckpointState.WRITING, reason="in its name")
        for n in (10, 20, 30)
    ]
    assert "no complete checkpoint" in skipped(run_of(*every))
    assert removed(run_of(*every, *series(2))) == {"step_100.pt"}


def test_a_format_whose_finished_checkpoints_are_all_judged_damaged_loses_none_of_them():
    misjudged = [saved(f"rank_{n}.pt", 30 - n, step=n, state=CheckpointState.DAMAGED, reason="odd") for n in range(9)]
    assert removed(run_of(*misjudged, *series(2))) == {"step_100.pt"}
    assert (
        skipped(run_of(*misjudged)) == "no complete checkpoint of this run may be pruned: all 9 candidates are damaged"
    )


@pytest.mark.parametrize("path", ["/scratch/bob/step_1.pt", f"{DIRECTORY}/../bob/step_1.pt", f"{DIRECTORY}x/step_1.pt"])
def test_a_path_that_leads_elsewhere_is_never_removed(path):
    stray = saved("step_1.pt", 90, step=1, path=PurePosixPath(path))
    assert removed(run_of(stray, *series(2))) == {"step_100.pt"}


def test_a_live_directory_is_not_judged_by_an_empty_database():
    everything = [replace(one, attempt=None, first_seen_at=NOW) for one in series(5)]
    assert "no job of it was ever seen" in skipped(run_of(*everything, attempts=[]))
    made = retention.plan_run(run_of(*everything), policy_of(), NOW)
    assert "no complete checkpoint" in made.skipped
    assert {one.reasons for one in made.keep} == {("no job of this run was seen writing it",)}


def test_an_unmounted_file_system_is_not_taken_for_all_gone():
    empty = Scan(directory=PurePosixPath(DIRECTORY), scanned_at=NOW, checkpoints=())
    assert "the database and the disk list different checkpoints" in skipped(run_of(*series(5), scan=empty))
    assert "not mounted" in skipped(run_of(*series(5), scan=Unknown(what=DIRECTORY, reason="not mounted")))


def test_a_directory_that_was_not_read_whole_is_left_alone():
    run = run_of(*series(5))
    partial = replace(run.scan, problems=(Unknown(what="sub", reason="Permission denied"),))
    assert "Permission denied" in skipped(replace(run, scan=partial))
    assert "never read" in skipped(replace(run, scan=None))


def test_a_checkpoint_that_could_not_be_read_stops_the_run():
    unknown = saved("step_1.pt", 90, step=1, state=CheckpointState.UNKNOWN, reason="I/O error")
    assert "I/O error" in skipped(run_of(unknown, *series(4)))


def test_a_database_restored_from_an_old_backup_is_noticed():
    run = run_of(*series(5))
    moved_on = [
        replace(one, identities=(FileIdentity(7, 1, 1, 1),)) if one.step == 500 else one for one in run.scan.checkpoints
    ]
    assert "step_500.pt" in skipped(replace(run, scan=replace(run.scan, checkpoints=tuple(moved_on))))
    more = (*run.scan.checkpoints, saved("step_600.pt", 1, step=600).checkpoint)
    assert "the database and the disk list different checkpoints" in skipped(
        replace(run, scan=replace(run.scan, checkpoints=more))
    )


def test_files_dated_in_the_future_stay_and_push_out_nothing():
    future = [saved(f"step_{n}.pt", -24 * 365, step=n, first_seen_at=NOW - hours(3)) for n in (700, 800)]
    assert removed(run_of(*series(3), *future), policy_of(KeepLast(2))) == {"step_100.pt"}


def test_clock_jumps_stop_everything():
    run = run_of(*series(5), jobs=[running_job()], attempts=[attempt()])
    assert "went back" in skipped(run, now=NOW - timedelta(days=300))
    assert "too long ago" in skipped(run, now=NOW + timedelta(days=300))
    jumped = NOW + timedelta(days=300)
    looked = replace(run, polled_at=jumped, scan=replace(run.scan, scanned_at=jumped))
    assert "clock disagrees with Slurm's" in skipped(looked, now=jumped)
    minute = timedelta(minutes=1)
    assert retention.check_clock(NOW, minute, NOW + minute, minute) is None
    assert retention.check_clock(NOW, minute, NOW + hours(1), minute) == "the clock jumped by +3540 s"
    assert retention.check_clock(NOW, minute, NOW - hours(1), minute) == "the clock jumped by -3660 s"


def test_the_checkpoint_that_the_running_attempt_resumed_from_stays():
    attempts = [attempt(0, ended=100), attempt(1, begun=90, resumed_from=f"{DIRECTORY}/step_200.pt")]
    own = saved("step_900.pt", 80, step=900, by=(1, 1))
    run = run_of(*series(5, oldest=200), own, attempts=attempts)
    assert removed(run) == {"step_100.pt", "step_300.pt", "step_400.pt"}


def test_what_a_marker_names_stays():
    records = series(5)
    named = replace(records[1], checkpoint=replace(records[1].checkpoint, is_newest=True))
    assert "step_200.pt" not in removed(run_of(records[0], named, *records[2:]))


def test_what_an_index_lists_stays_so_that_it_names_nothing_that_is_gone():
    records = series(5)
    listed = replace(records[1], checkpoint=replace(records[1].checkpoint, is_listed=True))
    assert "step_200.pt" in removed(run_of(*records))
    assert "step_200.pt" not in removed(run_of(records[0], listed, *records[2:]))


def test_the_newest_fully_verified_and_everything_pinned_stay():
    records = series(6)
    records[0] = replace(records[0], is_pinned=True)
    records[1] = replace(records[1], verified_full_at=NOW - hours(1))
    records[2] = replace(records[2], verified_full_at=NOW - hours(1))
    assert removed(run_of(*records)) == {"step_200.pt", "step_400.pt", "step_500.pt"}


def test_what_was_written_last_stays_though_its_step_is_low():
    late = saved("step_50.pt", 1.5, step=50)  # the attempt went back to an older state of itself
    assert "step_50.pt" not in removed(run_of(*series(4), late))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"state": JobState.COMPLETING}, "COMPLETING"),
        ({"state": JobState.SIGNALING}, "SIGNALING"),
        ({"state": JobState.CONFIGURING}, "CONFIGURING"),
        ({"state": JobState.SUSPENDED}, "suspended"),
        ({"time_left": timedelta(minutes=3)}, "last minutes"),
        ({"state": JobState.SUSPENDED, "array_job_id": 9, "array_task_id": 2}, "job 9_2 is suspended"),
    ],
)
def test_a_job_in_motion_keeps_its_run_from_being_pruned(changes, why):
    assert why in skipped(run_of(*series(4), jobs=[running_job(**changes)], attempts=[attempt()]))


def test_a_restart_that_has_just_begun_is_left_to_load_what_it_wants():
    run = run_of(*series(4), attempts=[attempt(0, ended=1), attempt(1, begun=0.1)], jobs=[running_job()])
    assert "restart" in skipped(run)


def test_concurrent_writers_are_left_alone():
    assert "another run" in skipped(run_of(*series(4), other_writers=((running_job(7), "bob"),)))
    jobs = [running_job(1), running_job(2)]
    assert "two jobs" in skipped(run_of(*series(4), jobs=jobs))
    zombie = [attempt(0, begun=90), attempt(0, job=2, begun=80)]
    assert "two jobs" in skipped(run_of(*series(4), attempts=zombie))


def test_a_misspelt_metric_does_not_empty_a_directory():
    assert removed(run_of(*series(6)), policy_of(KeepBest(1, "val_los", "min"))) == set()
    assert removed(run_of(*series(6)), policy_of(KeepEvery(2, "epochs"))) == set()


def test_where_no_marker_names_the_best_all_are_kept_and_that_is_said():
    made = retention.plan_run(run_of(*series(6)), policy_of(KeepBest(1)), NOW)
    assert not made.remove
    assert all("no marker of its format names the best one" in one.reasons for one in made.keep)


def best_by_name(*values, metric="val_acc", **changes):
    """A checkpoint marked as best for each value of a metric that its name states."""
    return [
        saved(
            f"best-epoch={n}-{metric}={value}.ckpt",
            30 - n,
            epoch=n,
            is_best=True,
            metrics={metric: value},
            grouping=Grouping(series=f"best-epoch=#-{metric}=~.ckpt", progress=(n,), has_progress_word=True),
            **changes,
        )
        for n, value in enumerate(values, 1)
    ]


@pytest.mark.parametrize("rules", [(KeepLast(1),), (KeepLast(1), KeepBest(1))])
def test_the_best_of_several_that_are_marked_as_best_stays_and_not_the_last(rules):
    gone = removed(run_of(*best_by_name(0.5, 0.91, 0.6, 0.72)), policy_of(*rules))
    assert gone == {"best-epoch=1-val_acc=0.5.ckpt", "best-epoch=3-val_acc=0.6.ckpt"}
    gone = removed(run_of(*best_by_name(0.5, 0.91, 0.6, 0.72, metric="val_loss")), policy_of(*rules))
    assert gone == {"best-epoch=2-val_loss=0.91.ckpt", "best-epoch=3-val_loss=0.6.ckpt"}
    gone = removed(run_of(*best_by_name(0.5, 0.91, 0.6, 0.72, metric="val_f1_score")), policy_of(*rules))
    assert gone == {"best-epoch=1-val_f1_score=0.5.ckpt", "best-epoch=3-val_f1_score=0.6.ckpt"}


@pytest.mark.parametrize("rules", [(KeepLast(1),), (KeepLast(1), KeepBest(1))])
def test_where_no_metric_ranks_all_that_are_marked_as_best_all_of_them_stay(rules):
    values = (0.5, 0.91, 0.6, 0.72)
    for metric in ("val_frobs", "fid_score", "score", "mse_score", "neg_mse", "acc_gap", "val_f"):
        assert removed(run_of(*best_by_name(*values, metric=metric)), policy_of(*rules)) == set()
    first, *others = best_by_name(*values)
    unmeasured = replace(first, checkpoint=replace(first.checkpoint, metrics={}))
    assert removed(run_of(unmeasured, *others), policy_of(*rules)) == set()
    bare = [saved(f"best_{n}.pt", 30 - n, epoch=n, is_best=True, metrics={"loss": n}) for n in (1, 2, 3)]
    assert removed(run_of(*bare), policy_of(*rules)) == set()  # it may be the loss on the training data
    held_out = [
        replace(one, checkpoint=replace(one.checkpoint, metrics={"val_loss": one.checkpoint.epoch})) for one in bare
    ]
    assert removed(run_of(*held_out), policy_of(*rules)) == {"best_2.pt"}


def test_a_metric_that_is_no_number_is_never_best():
    records = [
        saved(f"step_{n}.pt", 30 - n, step=n, metrics={"loss": loss})
        for n, loss in enumerate((0.5, float("nan"), 0.1, 0.9))
    ]
    gone = removed(run_of(*records), policy_of(KeepBest(1, "loss", "min")))
    assert gone == {"step_0.pt", "step_1.pt"}


def test_a_fixed_name_that_each_save_overwrites_is_no_history_and_pushes_nothing_out():
    last = saved("last.ckpt", 1.5, step=400)
    assert removed(run_of(*series(4), last), policy_of(KeepLast(2))) == {"step_100.pt", "step_200.pt"}


def test_the_size_limit_lets_go_of_the_oldest_that_only_time_keeps_and_never_of_the_floor():
    policy = policy_of(KeepLast(2), KeepWithin(timedelta(days=9)), max_total_size_bytes=350)
    assert removed(run_of(*series(6)), policy) == {"step_100.pt", "step_200.pt", "step_300.pt"}
    tiny = replace(policy, max_total_size_bytes=1)
    assert removed(run_of(*series(6)), tiny) == {"step_100.pt", "step_200.pt", "step_300.pt", "step_400.pt"}


def test_a_run_without_policy_directory_or_mode_is_left_alone():
    assert retention.plan_run(run_of(*series(4)), None, NOW).skipped == "no policy applies to it"
    assert "off" in skipped(run_of(*series(4)), policy_of(KeepLast(1), mode=retention.PolicyMode.OFF))
    assert "no checkpoint directory" in skipped(run_of(directory="job:7"))
