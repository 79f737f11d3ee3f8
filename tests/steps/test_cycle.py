"""The cycle with a real store and the real agent; only Slurm is told what to say."""

import io
import os
import zipfile
from datetime import timedelta
from pathlib import PurePosixPath

from ckptd.core import health
from ckptd.core.model import EndedAttempt, JobState, RunKey, Unknown
from ckptd.steps.decision_slice import DecisionSlice
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.snapshots import RunHistories
from steps.replayed_fleet import UID, Fleet, minute

DOWN = Unknown(what="queue", reason="slurmctld does not answer")
RESTARTED = ("restarted-without-checkpoint", 1)


def restart(fleet, **changes):
    fleet.run(1, fleet.job())
    fleet.run(30, fleet.job(state=JobState.PENDING, restart_count=1, submitted_at=minute(29), started_at=None))
    return fleet.job(start=31, restart_count=1, submitted_at=minute(29), **changes)


def test_a_restart_with_nothing_saved_is_flagged_and_resolves_once_something_is(fleet):
    again = restart(fleet)
    assert fleet.run(32, again) == [RESTARTED]
    assert fleet.run(33, again) == [RESTARTED]
    [history] = fleet.state.latest(RunHistories).by_run.values()
    assert history.context.flagged == {RESTARTED}
    fleet.save("ck/step_5.safetensors", 40)
    assert fleet.run(41, again) == []
    [row] = fleet.parts.store.jobs.list_open(minute(41))
    assert (row.directory, row.located_by, row.step, row.restart_count) == (
        str(fleet.work_dir / "ck"),
        "discovery",
        5,
        1,
    )


def test_an_error_in_a_rule_ends_no_cycle_and_resolves_nothing_of_that_rule(fleet, monkeypatch):
    again = restart(fleet)
    assert fleet.run(32, again) == [RESTARTED]

    def fail(rule, history, now):
        raise OverflowError("date value out of range")

    monkeypatch.setattr(health.RULES["restarted-without-checkpoint"], "evaluate", fail)
    fleet.save("ck/step_5.safetensors", 40)
    assert fleet.run(41, again) == [RESTARTED]
    [((run, rule), error)] = fleet.state.find(DecisionSlice).failed_rules.items()
    assert (run.directory, rule, str(error)) == (
        str(fleet.work_dir / "ck"),
        "restarted-without-checkpoint",
        "date value out of range",
    )
    monkeypatch.undo()
    assert fleet.run(42, again) == []
    assert fleet.state.find(DecisionSlice).failed_rules == {}


def make_npz():
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }".ljust(117) + b"\n"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("weights.npy", b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header)
    return content.getvalue()


def test_the_time_of_a_save_is_measured_from_the_first_look_at_its_temporary_file(fleet):
    whole = make_npz()
    fleet.save("ck/step_4.npz", 0.5, whole)
    fleet.run(1, fleet.job())
    fleet.save("ck/.step_5.npz.tmp", 10, whole[:60])
    fleet.run(10, fleet.job())
    fleet.save("ck/.step_5.npz.tmp", 12, whole)
    (fleet.work_dir / "ck/.step_5.npz.tmp").rename(fleet.work_dir / "ck/step_5.npz")
    fleet.run(13, fleet.job())
    [history] = fleet.parts.store.histories.read("c1", {RunKey("c1", UID, str(fleet.work_dir / "ck"))})
    began = {each.checkpoint.path.name: each.started_writing_at for each in history.checkpoints if not each.deleted_at}
    assert began == {"step_4.npz": None, "step_5.npz": minute(10)}


def test_a_restart_from_a_checkpoint_is_not_flagged(fleet):
    fleet.run(1, fleet.job())
    fleet.save("ck/step_5.safetensors", 20)
    assert fleet.run(32, restart(fleet)) == []


def test_a_job_that_began_and_ended_while_nobody_looked_lost_only_what_it_had_not_saved(fleet):
    fleet.save("ck/step_5.safetensors", 40)
    ended = {"state": JobState.FAILED, "comment": "ckpt=ck", "ends_at": minute(60)}
    fleet.run(61, fleet.job(**ended), fleet.job(2, start=55, **ended))
    fleet.run(62, fleet.job(**ended), fleet.job(2, start=55, **ended))
    run = RunKey("c1", UID, str(fleet.work_dir / "ck"))
    (line,) = fleet.parts.store.lost_work.list_lines(run)
    assert (line.attempt[0].job_id, line.is_final) == (1, True)
    assert line.loss.lost == timedelta(minutes=20)
    fleet.run(70, fleet.job(3, start=69, work_dir=PurePosixPath("/elsewhere")))
    assert all(each.key != run for each in fleet.state.watchlist.all)


def test_a_silent_controller_opens_and_resolves_nothing_and_ends_nobody(fleet):
    again = restart(fleet)
    fleet.run(32, again)
    fleet.save("ck/step_5.safetensors", 40)
    for minutes in range(42, 60, 3):
        fleet.run(minutes, DOWN)
        assert fleet.running() == [1]
    assert fleet.flags() == [RESTARTED]  # by then the last poll is too old to judge by
    assert fleet.state.latest(PolledQueue).slurm_trouble == "slurmctld does not answer"
    assert fleet.run(60, again) == []


def test_an_unreadable_directory_says_nothing_about_absence(fleet):
    (fleet.work_dir / "ck").mkdir()
    os.chown(fleet.work_dir / "ck", UID, UID)
    fleet.run(1, fleet.job(comment="ckpt=ck"))
    again = restart(fleet, comment="ckpt=ck")
    (fleet.work_dir / "ck").chmod(0)
    if os.geteuid() != 0 or UID != 0:
        assert fleet.run(32, again) == []
    (fleet.work_dir / "ck").chmod(0o755)
    assert fleet.run(33 + 60, again) == [RESTARTED]


def test_everything_vanishing_at_once_is_doubted_until_looks_agree(fleet):
    jobs = [fleet.job(number, name=f"n{number}") for number in range(1, 6)]
    fleet.run(1, *jobs)
    fleet.source.jobs = ()
    fleet.run(2)
    fleet.run(3)
    assert fleet.running() == [1, 2, 3, 4, 5]
    fleet.run(4)
    assert fleet.running() == []


def test_polls_right_after_one_another_do_not_confirm_that_everything_vanished(fleet):
    fleet.run(1, *[fleet.job(number, name=f"n{number}") for number in range(1, 6)])
    fleet.source.jobs = ()
    for minutes in (2, 2.02, 2.04, 3, 3.02):  # as before and after a removal
        fleet.run(minutes)
    assert fleet.running() == [1, 2, 3, 4, 5]
    fleet.run(4)
    assert fleet.running() == []


def test_accounting_that_knows_every_end_leaves_no_doubt(fleet):
    fleet.run(1, fleet.job())
    fleet.source.jobs = ()
    fleet.source.ended = (EndedAttempt(1, minute(-1), minute(0), minute(1.5), JobState.COMPLETED, "n1", 1, 4, 0),)
    fleet.run(2)
    assert fleet.running() == []
    [history] = fleet.parts.store.histories.read("c1")
    assert history.attempts[0].cause.value == "completed"


def test_a_new_start_of_the_daemon_goes_on_where_it_was(fleet, agent, tmp_path):
    again = restart(fleet)
    fleet.run(32, again)
    successor = Fleet(agent, f"sqlite:///{tmp_path}/ckptd.sqlite3", fleet.work_dir)
    assert successor.flags() == [RESTARTED]
    assert successor.run(33, again) == [RESTARTED]
    assert len(successor.parts.store.flags.read("c1", include_resolved=True)) == 1
    successor.parts.store.close()


def writers_of(fleet, minutes):
    """Which job is credited with each step that is on record."""
    [row] = fleet.parts.store.jobs.list_open(minute(minutes))
    run = RunKey("c1", UID, str(row.directory))
    found = fleet.parts.store.checkpoints.read(run)
    return {record.checkpoint.step: record.attempt and record.attempt[0].job_id for record in found}


def test_what_the_next_task_of_an_array_saves_is_its_own_from_the_first(fleet):
    tasks = [fleet.job(n, start=start, array_job_id=1, array_task_id=n) for n, start in ((1, 0), (2, 9))]
    fleet.save("ck/step_1.safetensors", 0.5)
    fleet.run(1, tasks[0])
    fleet.save("ck/step_2.safetensors", 2)
    fleet.run(3, tasks[0])
    for minutes in (6, 9):  # the first has ended, and the second waits until minute 9
        fleet.source.jobs = ()
        fleet.source.ended = (EndedAttempt(1, minute(-1), minute(0), minute(5), JobState.COMPLETED, "n1", 1, 4, 0),)
        fleet.run(minutes)
    fleet.save("ck/step_3.safetensors", 9.5)
    fleet.run(10, tasks[1])
    assert writers_of(fleet, 10) == {1: None, 2: 1, 3: 2}


def test_what_is_saved_while_the_daemon_starts_again_is_proven(fleet, agent, tmp_path):
    fleet.save("ck/step_1.safetensors", 0.5)
    fleet.run(1, fleet.job())
    successor = Fleet(agent, f"sqlite:///{tmp_path}/ckptd.sqlite3", fleet.work_dir)
    fleet.save("ck/step_2.safetensors", 2)
    successor.run(3, fleet.job())
    assert writers_of(successor, 3) == {1: None, 2: 1}
    successor.parts.store.close()
