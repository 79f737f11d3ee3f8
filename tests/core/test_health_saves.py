"""Rules about what is on disk: damage, leftovers, room, owners, places."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.health.checkpoint_overdue import CheckpointOverdue
from ckptd.core.health.damaged_checkpoint import DamagedCheckpoint
from ckptd.core.health.foreign_owner import ForeignOwner
from ckptd.core.health.interrupted_save import InterruptedSave
from ckptd.core.health.no_room import NoRoom
from ckptd.core.health.unsafe_pickle import UnsafePickle
from ckptd.core.health.volatile_path import VolatilePath
from ckptd.core.model import CheckpointState, FreeSpaceSample, JobState, RunKey, Severity, Suspension, Totals, Unknown
from ckptd.core.runs.cadence import measure_rhythm
from core.histories import at, attempt, history, job, only, saved, scan_at, text_of
from support.run_builder import change

DAMAGED, WRITING = CheckpointState.DAMAGED, CheckpointState.WRITING
BLIND = scan_at(0, problems=(Unknown(what="sub", reason="Permission denied"),))


EVERY_TEN = [saved(minute, step=minute) for minute in (10, 20, 30, 40)]
OVERDUE = {
    "it saves, though what it saves is damaged": (
        history(now=71, checkpoints=[*EVERY_TEN, saved(60, state=DAMAGED)]),
        71,
        False,
    ),
    "it goes on saving": (history(now=50, checkpoints=EVERY_TEN), 50, False),
    "three intervals have passed": (history(now=71, checkpoints=EVERY_TEN), 71, True),
    "too few intervals are known": (history(now=71, checkpoints=EVERY_TEN[:3]), 71, False),
    "fifteen minutes have not passed": (
        history(now=6, checkpoints=[saved(minute, step=minute) for minute in (1, 2, 3, 4)]),
        18,
        False,
    ),
    "a save is being written": (history(now=71, checkpoints=[*EVERY_TEN, saved(71, state=WRITING)]), 71, False),
    "a marker of a writer that ended is no save": (
        history(
            now=170,
            attempts=[attempt(0, 90), attempt(100, restart_count=1)],
            checkpoints=[*EVERY_TEN, saved(41, state=WRITING)],
        ),
        170,
        True,
    ),
    "a restart has as long again to its first save": (
        history(now=135, attempts=[attempt(0, 90), attempt(100, restart_count=1)], checkpoints=EVERY_TEN),
        135,
        False,
    ),
    "it was suspended until a moment ago": (
        history(now=71, checkpoints=EVERY_TEN, suspended_until={1: at(60)}),
        71,
        False,
    ),
    "it was suspended while nobody looked, as its limit tells": (
        history(
            now=71,
            attempts=[replace(attempt(), suspensions=(Suspension(at(45), at(60)),))],
            checkpoints=EVERY_TEN,
        ),
        71,
        False,
    ),
    "it has saved less often before, since its interval was changed": (
        history(now=200, checkpoints=[*EVERY_TEN, saved(100, step=100), saved(160, step=160)]),
        230,
        False,
    ),
    "not even as often as since its interval was changed": (
        history(now=240, checkpoints=[*EVERY_TEN, saved(100, step=100), saved(160, step=160)]),
        240,
        True,
    ),
    "it is suspended": (history(now=71, jobs=[job(state=JobState.SUSPENDED)], checkpoints=EVERY_TEN), 71, False),
}


def best(minute, value, **changes):
    return saved(
        minute, name=f"epoch={minute}-val_loss={value}.ckpt", step=minute, metrics={"val_loss": value}, **changes
    )


BETTER = [best(minute, 1 / minute) for minute in (10, 20, 30, 40)]
SAVES_OF_THE_BEST = {
    "each states a lower loss": (BETTER, Severity.INFO),
    "each states a higher accuracy": (
        [saved(n, name=f"m-acc={n}.pt", step=n, metrics={"acc": float(n)}) for n in (10, 20, 30, 40)],
        Severity.INFO,
    ),
    "each is marked as the best": (
        [saved(n, name="best_model.pt", step=n, is_best=True, gone=n + 10) for n in (10, 20, 30, 40)],
        Severity.INFO,
    ),
    "one was worse than the one before": ([*BETTER[:3], best(40, 0.9)], Severity.WARNING),
    "another is saved beside each": (
        [*BETTER, *(saved(n, name="last.ckpt", step=n) for n in (12, 22, 32, 42))],
        Severity.WARNING,
    ),
    "each states a better value without a word, as Keras' examples do": (
        [
            saved(10 * n, name=f"weights.{n:02d}-{value}.weights.h5", epoch=n)
            for n, value in enumerate((0.9, 0.71, 0.65, 0.45), 1)
        ],
        Severity.INFO,
    ),
    "one of these was worse than the one before": (
        [
            saved(10 * n, name=f"weights.{n:02d}-{value}.hdf5", epoch=n)
            for n, value in enumerate((0.9, 0.71, 0.75, 0.45), 1)
        ],
        Severity.WARNING,
    ),
    "the number behind the time step of a simulation": (
        [saved(10 * n, name=f"frame_{n:03d}-{n / 4:.2f}.h5", step=n) for n in (1, 2, 3, 4)],
        Severity.WARNING,
    ),
    "the value is in the content only": (
        [saved(n, step=n, metrics={"val_loss": 1 / n}) for n in (10, 20, 30, 40)],
        Severity.WARNING,
    ),
}


@pytest.mark.parametrize(("checkpoints", "severity"), SAVES_OF_THE_BEST.values(), ids=SAVES_OF_THE_BEST)
def test_a_job_that_saves_only_what_is_better_may_be_late_for_good_reason(checkpoints, severity):
    finding = only(CheckpointOverdue(), history(now=80, checkpoints=checkpoints), 80)
    assert finding.severity is severity
    assert ("only when a measured value improves" in text_of(finding)) == (severity is Severity.INFO)


@pytest.mark.parametrize(("given", "minute", "holds"), OVERDUE.values(), ids=OVERDUE)
def test_a_job_that_stops_saving_is_overdue(given, minute, holds):
    assert bool(only(CheckpointOverdue(), given, minute)) == holds


def test_the_time_in_which_a_job_was_suspended_is_no_interval():
    """Neither is it overdue later than others, for a long interval that it seems to have come back from."""
    paused = replace(attempt(), suspensions=(Suspension(at(35), at(235)),))
    found = [saved(minute, step=minute) for minute in (10, 20, 30, 240, 250, 260)]
    given = history(now=300, attempts=[paused], checkpoints=found)
    assert measure_rhythm(given).longest_recent == timedelta(minutes=10)
    assert only(CheckpointOverdue(), given, 289) is None
    assert only(CheckpointOverdue(), given, 291) is not None


def test_the_interval_follows_a_change_for_good():
    often = [saved(5 * n, step=5 * n) for n in range(1, 20)]
    rarely = [saved(95 + 60 * n, step=95 + 60 * n) for n in range(1, 5)]
    for count, minutes in ((0, 5), (3, 5), (4, 60)):
        given = history(now=400, checkpoints=[*often, *rarely[:count]])
        assert measure_rhythm(given).interval == timedelta(minutes=minutes)


def test_a_directory_that_was_not_read_whole_leaves_absence_undecided():
    assert isinstance(CheckpointOverdue().evaluate(history(checkpoints=EVERY_TEN, scan=BLIND), at(90)), Unknown)


DAMAGE = {
    "the newest is whole": ([saved(10, state=DAMAGED), saved(20)], None),
    "the newest is damaged": ([saved(10, step=10), saved(20, state=DAMAGED)], "/scratch/alice/run/step-10.pt"),
    "a backup is made after each save": (
        [saved(10, name="state.cpt"), saved(11, name="state_prev.cpt"), saved(20, state=DAMAGED)],
        "/scratch/alice/run/state.cpt",
    ),
    "a newer one is being written": (
        [saved(10, step=10), saved(20, state=DAMAGED), saved(30, state=WRITING)],
        "/scratch/alice/run/step-10.pt",
    ),
    "the damaged one is gone": ([saved(10), saved(20, state=DAMAGED, gone=25)], None),
    "nothing is there": ([], None),
}


@pytest.mark.parametrize(("checkpoints", "good"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_newest_checkpoint_names_the_newest_good_one(checkpoints, good):
    finding = only(DamagedCheckpoint(), history(now=30, checkpoints=checkpoints), 30)
    assert (finding.evidence["newest_good"] if finding else None) == good
    assert finding is None or (finding.severity is Severity.CRITICAL and good in text_of(finding))


def test_damage_is_told_without_a_good_one_and_while_the_job_waits():
    waiting = [job(state=JobState.PENDING, restart_count=1)]
    given = history(now=30, jobs=waiting, checkpoints=[saved(20, state=DAMAGED)])
    finding = only(DamagedCheckpoint(), given, 30)
    assert finding.evidence["newest_good"] is None
    assert "no complete checkpoint is left" in text_of(finding)


def test_damage_is_neither_found_nor_gone_where_not_everything_was_read():
    assert isinstance(DamagedCheckpoint().evaluate(history(checkpoints=[saved(20)], scan=BLIND), at(30)), Unknown)
    damaged = history(now=30, checkpoints=[saved(20, state=DAMAGED)], scan=BLIND)
    assert only(DamagedCheckpoint(), damaged, 30)


def test_damage_done_since_the_queue_was_last_seen_waits_until_it_is_known_whether_the_job_still_runs():
    unseen = history(now=30, polled_at=at(25), checkpoints=[saved(10), saved(27, state=DAMAGED)])
    assert isinstance(DamagedCheckpoint().evaluate(unseen, at(30)), Unknown)
    seen = saved(20, state=DAMAGED)
    dated_ahead = replace(seen, checkpoint=replace(seen.checkpoint, modified_at=at(9999)))
    assert only(DamagedCheckpoint(), replace(unseen, checkpoints=(dated_ahead,)), 30)


RESTARTED = [attempt(0, 22), attempt(24, restart_count=1)]
LEFT = {
    "a temporary file of an attempt that ended": ([saved(10), saved(20, name="x.tmp", state=DAMAGED)], RESTARTED, True),
    "a marker of an attempt that ended": ([saved(10), saved(20, name="x.tmp", state=WRITING)], RESTARTED, True),
    "its writer still runs": ([saved(10), saved(20, name="x.tmp", state=WRITING)], [attempt()], False),
    "its writer has saved again since": (
        [saved(10), saved(20, name="x.tmp", state=DAMAGED), saved(35)],
        [attempt()],
        True,
    ),
    "it is fresh": ([saved(10), saved(38, name="x.tmp", state=DAMAGED)], RESTARTED, False),
    "a whole backup beside a newer checkpoint": ([saved(10, name="x.tmp"), saved(20)], RESTARTED, False),
    "a whole backup alone": ([saved(20, name="x.tmp")], RESTARTED, True),
    "a whole backup beside a damaged checkpoint": (
        [saved(18, name="x.tmp"), saved(20, state=DAMAGED)],
        RESTARTED,
        True,
    ),
}


@pytest.mark.parametrize(("checkpoints", "attempts", "holds"), LEFT.values(), ids=LEFT)
def test_what_an_interrupted_save_left_is_told_once_nobody_writes_it(checkpoints, attempts, holds):
    given = history(now=40, attempts=attempts, checkpoints=checkpoints, scan=scan_at(40, leftovers=("x.tmp",)))
    assert bool(only(InterruptedSave(), given, 40)) == holds


def test_the_first_save_after_a_restart_may_have_fewer_ranks_and_the_next_one_tells():
    """Four ranks, then two: the first checkpoint of two is as good as the next of two shows it to be."""
    short = {"state": DAMAGED, "reason": "rank_2.pt is missing, which the checkpoints before it have"}
    restarted = [attempt(0, 60), attempt(62, restart_count=1)]
    before = [saved(10, step=10), saved(50, step=50)]

    def judge(*own, attempts=restarted):
        return DamagedCheckpoint().evaluate(history(now=100, attempts=attempts, checkpoints=[*before, *own]), at(100))

    assert isinstance(judge(saved(70, step=60, **short)), Unknown)
    (found,) = judge(saved(70, step=60), saved(80, step=70, **short))  # it had four ranks since the restart
    assert found.severity is Severity.CRITICAL
    (found,) = judge(saved(70, step=60, **{**short, "reason": "rank_1.pt is cut off"}))
    assert found.severity is Severity.CRITICAL
    (found,) = judge(saved(55, step=60, **short), attempts=[attempt(0)])
    assert found.severity is Severity.CRITICAL


def test_a_leftover_is_not_taken_for_a_damaged_checkpoint():
    checkpoints = [saved(10), saved(20, name="x.tmp", state=DAMAGED)]
    given = history(now=40, checkpoints=checkpoints, scan=scan_at(40, leftovers=("x.tmp",)))
    assert only(DamagedCheckpoint(), given, 40) is None


@pytest.mark.parametrize(("free", "is_open", "holds"), [(201, False, False), (199, False, True), (201, True, True)])
def test_a_disk_with_less_room_than_two_checkpoints_is_told_to_user_and_administrators(free, is_open, holds):
    flagged = frozenset({("no-room", 1)}) if is_open else frozenset()
    samples = (FreeSpaceSample(at(0), 799), FreeSpaceSample(at(60), 199))
    scan = scan_at(60, free_bytes=free, total_bytes=1000)
    given = history(now=60, checkpoints=[saved(10, size=100)], scan=scan, flagged=flagged, free_space_samples=samples)
    finding = only(NoRoom(), given, 60)
    assert bool(finding) == holds
    if finding:
        assert finding.audience == ("user", "admin")
        assert finding.evidence["full_at"] == at(79.9).isoformat()


def test_a_requeued_job_still_has_no_room_while_it_waits():
    """Otherwise its user would be told with each start that there is none, and with each end that there is."""
    waiting = job(state=JobState.PENDING, restart_count=1)
    given = history(now=60, jobs=[waiting], checkpoints=[saved(10, size=100)], scan=scan_at(60, free_bytes=150))
    assert only(NoRoom(), given, 60) is None
    assert only(NoRoom(), change(given, flagged=frozenset({("no-room", 1)})), 60) is not None


def test_a_quota_that_is_nearly_used_up_counts_as_no_room():
    scan = scan_at(60, free_bytes=10**9, quota_left_bytes=150, total_bytes=10**10)
    finding = only(NoRoom(), history(now=60, checkpoints=[saved(10, size=100)], scan=scan), 60)
    assert (finding.evidence["room_bytes"], finding.evidence["free_bytes"]) == (150, 10**9)
    assert "left of the quota" in text_of(finding)


def test_a_disk_that_failed_saves_have_filled_has_no_room_though_they_replaced_the_only_checkpoint():
    replaced = saved(10, name="last.pt", size=100, gone=20)
    given = history(now=60, checkpoints=[replaced, saved(50, name="last.pt", state=DAMAGED, size=7)])
    assert only(NoRoom(), replace(given, scan=scan_at(60, free_bytes=500)), 60) is None
    finding = only(NoRoom(), replace(given, scan=scan_at(60, free_bytes=50, total_bytes=1000)), 60)
    assert "a checkpoint takes 100 B" in text_of(finding)
    assert text_of(finding).endswith("take 7 B in total). No complete checkpoint is left.")


def test_room_that_could_not_be_asked_for_is_not_decided():
    assert isinstance(NoRoom().evaluate(history(checkpoints=[saved(10)]), at(60)), Unknown)


def test_a_full_disk_asks_to_keep_the_save_that_got_furthest_beside_the_newest():
    found = [saved(10, name="epoch_195", step=195, size=100), saved(50, name="epoch_4", step=4, size=100)]
    scan = scan_at(60, free_bytes=100)
    given = history(now=60, checkpoints=found, scan=scan)
    newest, furthest = (str(record.checkpoint.path) for record in reversed(found))
    assert f"take 200 B in total). Do not delete {newest} or {furthest}." in text_of(only(NoRoom(), given, 60))
    cut = replace(given, is_truncated=True, totals=Totals(70, 7000, 0))
    assert "take 6.8 KiB in total)" in text_of(only(NoRoom(), cut, 60))
    alone = only(NoRoom(), replace(given, checkpoints=tuple(found[:1])), 60)
    assert f"in total). Do not delete {furthest}." in text_of(alone)


def test_an_unsafe_pickle_is_told_to_administrators_alone():
    given = history(now=20, checkpoints=[saved(10), saved(15, unsafe=("os.system",))])
    finding = only(UnsafePickle(), given, 20)
    assert (finding.severity, finding.audience) == (Severity.CRITICAL, ("admin",))
    assert finding.evidence["names"] == ["os.system"]
    assert only(UnsafePickle(), history(now=20, checkpoints=[saved(10)]), 20) is None
    assert isinstance(UnsafePickle().evaluate(history(checkpoints=[saved(10)], scan=BLIND), at(20)), Unknown)


def test_a_file_of_another_user_is_told_unless_the_site_knows_them():
    given = history(now=20, checkpoints=[saved(10), saved(15, owner_uids=frozenset({1000, 77}))])
    finding = only(ForeignOwner(), given, 20)
    assert (finding.severity, finding.audience, finding.evidence["owner_uids"]) == (
        Severity.WARNING,
        ("admin",),
        ["77"],
    )
    assert only(ForeignOwner(service_uids=(77,)), given, 20) is None


def located(directory):
    return RunKey("c1", 1000, directory)


VOLATILE = {
    "a parallel file system": (history(), None),
    "a temporary path": (history(key=located("/tmp/alice/run")), "/tmp"),
    "a name that only begins like one": (history(key=located("/tmpfiles/run")), None),
    "a pattern": (history(key=located("/nvme/job.17/ckpt")), "/nvme/job.*"),
    "memory": (history(scan=scan_at(0, filesystem_type="tmpfs")), None),
    "the job names a place that only its node has": (
        history(key=located("job:1@x"), jobs=[job(comment="ckpt=/tmp/mine")]),
        "/tmp",
    ),
    "nothing is known": (history(key=located("job:1@x")), None),
    "an unlocated run's look was at its working directory": (
        history(key=located("job:1@x"), scan=scan_at(0, filesystem_type="tmpfs")),
        None,
    ),
}


@pytest.mark.parametrize(("given", "path"), VOLATILE.values(), ids=VOLATILE)
def test_checkpoints_only_where_they_vanish_are_told(given, path):
    finding = only(VolatilePath(paths=("/tmp", "/nvme/job.*")), given, 5)
    is_memory = given.key.is_located and given.scan.filesystem_type == "tmpfs"
    assert bool(finding) == (path is not None or is_memory)
    assert finding is None or finding.evidence["temporary_path"] == path


@pytest.mark.parametrize("scan", [Unknown(what="directory", reason="Permission denied"), None])
def test_without_a_scan_nothing_is_decided_from_the_type_of_a_file_system(scan):
    rule = VolatilePath(paths=("/tmp",))
    assert isinstance(rule.evaluate(change(history(), scan=scan), at(5)), Unknown)
    in_tmp = change(history(), key=RunKey("c1", 1000, "/tmp/run"), scan=scan)
    assert only(rule, in_tmp, 5).evidence["temporary_path"] == "/tmp"
