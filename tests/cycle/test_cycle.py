"""The cycle with a real store and the real agent; only Slurm is told what to say."""

import io
import os
import tempfile
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest

from ckptd import cycle
from ckptd.checkpoints.agent_client import AgentClient
from ckptd.core import health, views
from ckptd.core.model import EndedAttempt, Job, JobState, Past, QueueSnapshot, RunKey, Unknown
from ckptd.store.store import Store
from support.parts import make_parts

UID = 54322 if os.geteuid() == 0 else os.geteuid()
DOWN = Unknown(what="queue", reason="slurmctld does not answer")
# files are written while the test runs, so the cluster's time begins before it
BEGAN = datetime.now(UTC) - timedelta(hours=3)


def minute(minutes):
    return BEGAN + timedelta(minutes=minutes)


class ToldSource:
    """A cluster that answers what the test tells it."""

    name = "told"

    def __init__(self):
        self.jobs: tuple[Job, ...] | Unknown = ()
        self.ended: tuple[EndedAttempt, ...] | Unknown = Unknown(what="accounting", reason="there is none")

    def read_queue(self, now):
        if isinstance(self.jobs, Unknown):
            return self.jobs
        return QueueSnapshot(cluster="c1", polled_at=now, jobs=self.jobs)

    def read_past(self, since, until):
        return Past((), until)

    def read_ended(self, job_ids, since):
        return self.ended

    def read_batch_script(self, job_id):
        return "#!/bin/bash\npython train.py --checkpoint-dir out\n"


@pytest.fixture(scope="module")
def agent():
    client = AgentClient()
    yield client
    client.close()


@pytest.fixture
def work_dir():
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        directory = Path(parent, "run")
        directory.mkdir()
        os.chown(directory, UID, UID)
        yield directory


class Fleet:
    """A daemon's parts and state, driven by minutes."""

    def __init__(self, agent, url, work_dir):
        self.source = ToldSource()
        self.work_dir = work_dir
        self.parts = make_parts(
            "c1",
            self.source,
            Store.open(url, upgrade=True),
            agent,
            # a test's directories are temporary ones, which a rule of its own would say of each
            rules=tuple(rule() for name, rule in health.RULES.items() if name != "volatile-path"),
            scan_interval=timedelta(minutes=1),
            max_poll_age=timedelta(minutes=10),
            min_job_duration=timedelta(minutes=10),
        )
        self.state = cycle.begin(self.parts, minute(0))

    def run(self, minutes, *jobs):
        if jobs:
            self.source.jobs = jobs if not isinstance(jobs[0], Unknown) else jobs[0]
        cycle.run_cycle(self.parts, self.state, minute(minutes))
        return self.flags()

    def job(self, job_id=1, *, start=0.0, name="train", **changes):
        values = {
            "cluster": "c1",
            "job_id": job_id,
            "user": "alice",
            "uid": UID,
            "name": name,
            "state": JobState.RUNNING,
            "time_limit": timedelta(hours=24),
            "submitted_at": minute(start - 1),
            "started_at": minute(start),
            "ends_at": minute(start) + timedelta(hours=24),
            "work_dir": PurePosixPath(self.work_dir),
            "node_list": "n1",
        }
        return Job(**{**values, **changes})

    def flags(self):
        flags = self.parts.store.read_open_flags("c1")
        return sorted((flag.finding.rule, flag.finding.job_id) for flag in flags)

    def running(self):
        return sorted(row.key.job_id for row in self.parts.store.list_jobs(minute(0)))

    def save(self, name, minutes, content=b"\x08\0\0\0\0\0\0\0{}      "):
        path = self.work_dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        for each in (path.parent, path):
            os.chown(each, UID, UID)
        os.utime(path, (minute(minutes).timestamp(),) * 2)


@pytest.fixture
def fleet(agent, tmp_path, work_dir):
    driven = Fleet(agent, f"sqlite:///{tmp_path}/ckptd.sqlite3", work_dir)
    yield driven
    driven.parts.store.close()


RESTARTED = ("restarted-without-checkpoint", 1)


def restart(fleet, **changes):
    fleet.run(1, fleet.job())
    fleet.run(30, fleet.job(state=JobState.PENDING, restart_count=1, submitted_at=minute(29), started_at=None))
    return fleet.job(start=31, restart_count=1, submitted_at=minute(29), **changes)


def test_a_restart_with_nothing_saved_is_flagged_and_resolves_once_something_is(fleet):
    again = restart(fleet)
    assert fleet.run(32, again) == [RESTARTED]
    fleet.save("ck/step_5.safetensors", 40)
    assert fleet.run(41, again) == []
    [row] = fleet.parts.store.list_jobs(minute(41))
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
    [((run, rule), error)] = fleet.state.failed_rules.items()
    assert (run.directory, rule, str(error)) == (
        str(fleet.work_dir / "ck"),
        "restarted-without-checkpoint",
        "date value out of range",
    )
    monkeypatch.undo()
    assert fleet.run(42, again) == []
    assert fleet.state.failed_rules == {}


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
    [history] = fleet.parts.store.read_histories("c1", {RunKey("c1", UID, str(fleet.work_dir / "ck"))})
    began = {each.checkpoint.path.name: each.started_writing_at for each in history.checkpoints if not each.gone_at}
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
    (line,) = fleet.parts.store.read_losses(run)
    assert (line.attempt[0].job_id, line.is_settled) == (1, True)
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
    assert fleet.state.slurm_trouble == "slurmctld does not answer"
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


def test_accounting_that_knows_every_end_leaves_no_doubt(fleet):
    fleet.run(1, fleet.job())
    fleet.source.jobs = ()
    fleet.source.ended = (EndedAttempt(1, minute(-1), minute(0), minute(1.5), JobState.COMPLETED, "n1", 1, 4, 0),)
    fleet.run(2)
    assert fleet.running() == []
    [history] = fleet.parts.store.read_histories("c1")
    assert history.attempts[0].cause.value == "completed"


def test_two_jobs_that_could_both_have_written_are_not_judged_by_what_was_found(fleet):
    jobs = [fleet.job(1, name="train"), fleet.job(2, name="evaluate")]
    fleet.run(1, *jobs)
    fleet.save("ck/step_5.safetensors", 2)
    assert fleet.run(70, *jobs) == []
    assert {row.directory for row in fleet.parts.store.list_jobs(minute(70))} == {None}
    for job_id, other in ((1, 2), (2, 1)):
        [reason] = told(fleet, job_id)
        assert reason == f"job {other} could have written {fleet.work_dir}/ck, too: name it by --comment=ckpt=PATH"
    assert cycle.report(fleet.parts, fleet.state, minute(70)).unknown_directories == 2


def told(fleet, job_id):
    """Why the record says that the directory of a job's run is not known."""
    [run] = fleet.parts.store.find_runs_of_job(job_id)
    [history] = fleet.parts.store.read_histories("c1", [run])
    assert not run.is_located
    return views.run_view(history, (), minute(0))["trouble"]


@pytest.mark.parametrize("where", ["comment", ".ckptd.toml"])
def test_a_name_that_leads_nowhere_is_told_and_hinders_no_flag_until_the_directory_is_there(fleet, where):
    comment = "ckpt=saves" if where == "comment" else ""
    if where == ".ckptd.toml":
        (fleet.work_dir / ".ckptd.toml").write_text('directory = "saves"\n')
    job = fleet.job(comment=comment)
    fleet.run(1, job)
    doubts = [f"No directory was found so far at saves, which its {where} names"]
    assert view_of(fleet)["doubts"] == doubts
    assert fleet.run(70, job) == [("no-checkpoint-yet", 1)]
    [flag] = fleet.parts.store.read_open_flags("c1")
    assert flag.finding.evidence["unmet_names"] == ["saves"]
    assert "Is the name right" in flag.finding.advice
    assert cycle.report(fleet.parts, fleet.state, minute(70)).unknown_directories == 0
    fleet.save("saves/step_5.safetensors", 71)
    assert fleet.run(72, job) == []
    assert view_of(fleet)["doubts"] == []


def test_a_name_that_leads_nowhere_is_told_where_something_else_was_found(fleet):
    fleet.run(1, fleet.job(comment="ckpt=saves"))
    fleet.save("ck/step_5.safetensors", 2)
    fleet.run(3, fleet.job(comment="ckpt=saves"))
    [doubt] = view_of(fleet)["doubts"]
    assert doubt.endswith("at saves, which its comment names; ckptd watches the one found by discovery")


def view_of(fleet, job_id=1):
    [run] = fleet.parts.store.find_runs_of_job(job_id)
    [history] = fleet.parts.store.read_histories("c1", [run])
    return views.run_view(history, (), minute(0))


def test_why_a_directory_is_not_known_is_told_until_a_search_sees_everything(fleet, agent, tmp_path):
    others = fleet.work_dir.parent / "others\x1b[31m"
    others.mkdir(mode=0o555)
    fleet.run(1, fleet.job(comment=f"ckpt={others}"))
    assert told(fleet, 1) == [f"{others} is not the job's: its user may not write there"]
    assert cycle.report(fleet.parts, fleet.state, minute(1)).unknown_directories == 1
    others.rmdir()
    successor = Fleet(agent, f"sqlite:///{tmp_path}/ckptd.sqlite3", fleet.work_dir)  # it knows only what is on record
    successor.run(3, fleet.job(comment=f"ckpt={others}"))
    assert told(successor, 1) == []
    assert cycle.report(successor.parts, successor.state, minute(3)).unknown_directories == 0
    successor.parts.store.close()


def test_what_was_said_of_a_directory_stays_when_its_job_has_ended(fleet):
    others = fleet.work_dir.parent / "others"
    others.mkdir(mode=0o555)
    job = fleet.job(comment=f"ckpt={others}")
    fleet.run(1, job)
    said = told(fleet, 1)
    fleet.run(2, replace(job, state=JobState.COMPLETED, ends_at=minute(1.5)))
    for minutes in (3, 4):
        fleet.source.jobs = ()
        fleet.run(minutes)
    assert not fleet.state.watchlist.all
    assert told(fleet, 1) == said


def test_a_first_attempt_that_was_flagged_is_not_told_on_when_it_has_ended_and_the_directory_is_not_known(fleet):
    fleet.run(1, fleet.job())
    assert fleet.run(70, fleet.job()) == [("no-checkpoint-yet", 1)]
    others = fleet.work_dir.parent / "others"
    others.mkdir(mode=0o555)
    again = fleet.job(start=81, restart_count=1, submitted_at=minute(80), comment=f"ckpt={others}")
    assert fleet.run(85, again) == []  # nor is it said that it restarted from nothing: nobody knows
    assert told(fleet, 1)


def test_the_batch_script_says_where_only_where_it_may_be_read(fleet):
    (fleet.work_dir / "out").mkdir()
    os.chown(fleet.work_dir / "out", UID, UID)
    fleet.run(1, fleet.job())
    assert [row.located_by for row in fleet.parts.store.list_jobs(minute(1))] == [None]
    fleet.parts = replace(fleet.parts, reads_batch_scripts=True)
    fleet.run(5)
    [row] = fleet.parts.store.list_jobs(minute(5))
    assert (row.directory, row.located_by) == (str(fleet.work_dir / "out"), "batch-script")


def test_one_script_submitted_twice_writes_over_itself(fleet):
    jobs = [fleet.job(1), fleet.job(2)]
    fleet.run(1, *jobs)
    fleet.save("ck/step_5.safetensors", 2)
    assert fleet.run(5, *jobs) == [("concurrent-writers", 1), ("concurrent-writers", 2)]
    assert fleet.run(6, jobs[0], fleet.job(2, state=JobState.COMPLETED, ends_at=minute(5.5))) == []


def test_a_new_start_of_the_daemon_goes_on_where_it_was(fleet, agent, tmp_path):
    again = restart(fleet)
    fleet.run(32, again)
    successor = Fleet(agent, f"sqlite:///{tmp_path}/ckptd.sqlite3", fleet.work_dir)
    assert successor.flags() == [RESTARTED]
    assert successor.run(33, again) == [RESTARTED]
    assert len(successor.parts.store.read_flags("c1", include_resolved=True)) == 1
    successor.parts.store.close()


def writers_of(fleet, minutes):
    """Which job is credited with each step that is on record."""
    [row] = fleet.parts.store.list_jobs(minute(minutes))
    run = RunKey("c1", UID, str(row.directory))
    found = fleet.parts.store.read_recorded(run)
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


def test_nobody_becomes_a_writer_of_anothers_directory_by_naming_it(fleet):
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        others = Path(parent, "others")
        others.mkdir(mode=0o755)  # root's, or this user's without the right to write
        others.chmod(0o555 if os.geteuid() else 0o755)
        fleet.run(1, fleet.job(comment=f"ckpt={others}"))
        assert [row.directory for row in fleet.parts.store.list_jobs(minute(1))] == [None]
        others.chmod(0o755)
