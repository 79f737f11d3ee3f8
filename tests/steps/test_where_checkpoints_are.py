"""Finding the directories of jobs, and what is said where that cannot be done."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from ckptd.core.model import JobState, Unknown
from ckptd.present import flag_texts, models
from ckptd.steps import decide, poll, publish
from steps.replayed_fleet import UID, Fleet, minute


def test_two_jobs_that_could_both_have_written_are_not_judged_by_what_was_found(fleet):
    jobs = [fleet.job(1, name="train"), fleet.job(2, name="evaluate")]
    fleet.run(1, *jobs)
    fleet.save("ck/step_5.safetensors", 2)
    assert fleet.run(70, *jobs) == []
    assert {row.directory for row in fleet.parts.store.jobs.list_open(minute(70))} == {None}
    for job_id, other in ((1, 2), (2, 1)):
        [reason] = told(fleet, job_id)
        assert reason == f"job {other} could have written {fleet.work_dir}/ck, too: name it by --comment=ckpt=PATH"
    assert publish.report(fleet.parts, fleet.state, minute(70)).unknown_directories == 2


def test_what_two_jobs_could_have_written_is_not_taken_where_their_working_directory_is_a_link(fleet):
    link = fleet.work_dir / "link"
    (fleet.work_dir / "real").mkdir()
    link.symlink_to("real")
    jobs = [fleet.job(1, name="train", work_dir=link), fleet.job(2, name="evaluate", work_dir=link)]
    fleet.run(1, *jobs)
    fleet.save("real/ck/step_5.safetensors", 2)
    fleet.run(70, *jobs)
    assert {row.directory for row in fleet.parts.store.jobs.list_open(minute(70))} == {None}


def test_a_rival_that_is_a_task_of_an_array_has_the_name_that_squeue_shows(fleet):
    jobs = [fleet.job(1, name="train"), fleet.job(2, name="sweep", array_job_id=2, array_task_id=7)]
    fleet.run(1, *jobs)
    fleet.save("ck/step_5.safetensors", 2)
    fleet.run(70, *jobs)
    [reason] = told(fleet, 1)
    assert reason.startswith("job 2_7 could have written ")


def told(fleet, job_id):
    """Why the record says that the directory of a job's run is not known."""
    [run] = fleet.parts.store.runs.find_of_job(job_id)
    [history] = fleet.parts.store.histories.read("c1", [run])
    assert not run.is_located
    return models.run_view(history, (), minute(0))["scan_problems"]


@pytest.mark.parametrize("where", ["comment", ".ckptd.toml"])
def test_a_name_that_leads_nowhere_is_told_and_hinders_no_flag_until_the_directory_is_there(fleet, where):
    comment = "ckpt=saves" if where == "comment" else ""
    if where == ".ckptd.toml":
        (fleet.work_dir / ".ckptd.toml").write_text('directory = "saves"\n')
    job = fleet.job(comment=comment)
    fleet.run(1, job)
    doubts = [f"saves, named by its {where}, does not exist or is not a directory"]
    assert view_of(fleet)["setting_warnings"] == doubts
    assert fleet.run(70, job) == [("no-checkpoint-yet", 1)]
    [flag] = fleet.parts.store.flags.list_open("c1")
    assert flag.finding.evidence["unmet_names"] == ["saves"]
    assert "Check the path" in flag_texts.make_recorded_text(flag.finding).advice
    assert publish.report(fleet.parts, fleet.state, minute(70)).unknown_directories == 0
    fleet.save("saves/step_5.safetensors", 71)
    assert fleet.run(72, job) == []
    assert view_of(fleet)["setting_warnings"] == []


def test_what_in_the_users_file_counts_for_nothing_is_told_and_what_it_said_before_counts(fleet):
    own = fleet.work_dir / ".ckptd.toml"
    own.write_text("resubmit = true\n")
    fleet.save("ck/step_5.safetensors", 2)
    fleet.run(3, fleet.job(comment="ckpt=ck"))
    assert view_of(fleet)["setting_warnings"] == [".ckptd.toml: resubmit has no effect without max_resubmits"]
    own.write_text("resubmit = true\nmax_resubmits = 3\n")
    fleet.run(4, fleet.job(2, comment="ckpt=ck"))
    assert view_of(fleet)["setting_warnings"] == []
    own.write_text("resubmit = yes\n")
    fleet.run(5, fleet.job(3, comment="ckpt=ck"))
    [doubt] = view_of(fleet)["setting_warnings"]
    assert doubt.startswith(".ckptd.toml: cannot be read: Invalid value (at line 1")
    [run] = fleet.parts.store.runs.find_of_job(3)
    [history] = fleet.parts.store.histories.read("c1", [run])
    assert history.user_settings.max_resubmits == 3


def test_a_name_that_leads_nowhere_is_told_where_something_else_was_found(fleet):
    fleet.run(1, fleet.job(comment="ckpt=saves"))
    fleet.save("ck/step_5.safetensors", 2)
    fleet.run(3, fleet.job(comment="ckpt=saves"))
    [doubt] = view_of(fleet)["setting_warnings"]
    assert doubt.endswith(
        "saves, named by its comment, does not exist or is not a directory; "
        "ckptd uses the directory from a search of the working directory"
    )


def view_of(fleet, job_id=1):
    [run] = fleet.parts.store.runs.find_of_job(job_id)
    [history] = fleet.parts.store.histories.read("c1", [run])
    return models.run_view(history, (), minute(0))


def test_why_a_directory_is_not_known_is_told_until_a_search_sees_everything(fleet, agent, tmp_path):
    others = fleet.work_dir.parent / "others\x1b[31m"
    others.mkdir(mode=0o555)
    fleet.run(1, fleet.job(comment=f"ckpt={others}"))
    assert told(fleet, 1) == [f"the job's user cannot write to {others}"]
    assert publish.report(fleet.parts, fleet.state, minute(1)).unknown_directories == 1
    others.rmdir()
    os.chown(others.parent, UID, UID)  # else it may be on a file system that is not mounted
    successor = Fleet(agent, f"sqlite:///{tmp_path}/ckptd.sqlite3", fleet.work_dir)  # it knows only what is on record
    successor.run(3, fleet.job(comment=f"ckpt={others}"))
    assert told(successor, 1) == [
        "no existing directory is named, and no search of the working directory has found checkpoints"
    ]
    assert publish.report(successor.parts, successor.state, minute(3)).unknown_directories == 0
    successor.parts.store.close()


def test_a_restart_that_waits_when_it_is_first_seen_is_searched_for_when_it_starts(fleet):
    fleet.save("ck/step_5.safetensors", 0)
    waiting = fleet.job(state=JobState.PENDING, restart_count=1, comment="ckpt=ck", node_list="", reason="BeginTime")
    fleet.run(1, waiting)
    [history] = fleet.parts.store.histories.read("c1")
    assert history.scan == Unknown(what="search", reason="the job has not started since ckptd first saw it")
    assert publish.report(fleet.parts, fleet.state, minute(1)).unknown_directories == 0
    fleet.source.jobs = (fleet.job(restart_count=1, comment="ckpt=ck", start=2, submitted_at=waiting.submitted_at),)
    poll.run(fleet.parts, fleet.state, minute(2))
    decide.decide(fleet.parts, fleet.state, minute(2))
    assert fleet.flags() == [], "nobody has searched for its directory yet"
    assert fleet.run(3) == []
    [run] = fleet.parts.store.runs.find_of_job(1)
    assert run.directory == f"{fleet.work_dir}/ck"


def test_runs_that_have_left_the_queue_count_no_longer_while_their_last_scan_is_repeated(fleet):
    fleet.save("ck/step_5.safetensors", 0)
    job = fleet.job(comment="ckpt=ck")
    fleet.run(1, job)
    fleet.run(2, job)
    (fleet.work_dir / "ck").chmod(0)
    fleet.run(70, job)
    report = publish.report(fleet.parts, fleet.state, minute(70))
    assert (report.unknown_directories, sum(report.runs_by_locator.values())) == (1, 1)
    fleet.run(71, replace(job, state=JobState.COMPLETED, ends_at=minute(70.5)))
    assert [each.is_unknown for each in fleet.state.watchlist.all] == [True]
    report = publish.report(fleet.parts, fleet.state, minute(71))
    assert (report.unknown_directories, sum(report.runs_by_locator.values())) == (0, 0)


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
    fleet.run(1, fleet.job(comment="ckpt=saves"))
    assert fleet.run(70) == [("no-checkpoint-yet", 1)]
    others = fleet.work_dir.parent / "others"
    others.mkdir(mode=0o555)
    again = fleet.job(start=81, restart_count=1, submitted_at=minute(80), comment=f"ckpt={others}")
    # nor is it said that it restarted from nothing: nobody knows
    assert fleet.run(85, again) == [("checkpoints-not-located", 1)]
    assert told(fleet, 1)


def test_the_batch_script_says_where_only_where_it_may_be_read(fleet):
    (fleet.work_dir / "out").mkdir()
    os.chown(fleet.work_dir / "out", UID, UID)
    fleet.run(1, fleet.job())
    assert [row.located_by for row in fleet.parts.store.jobs.list_open(minute(1))] == [None]
    fleet.parts = replace(fleet.parts, reads_batch_scripts=True)
    fleet.run(5)
    [row] = fleet.parts.store.jobs.list_open(minute(5))
    assert (row.directory, row.located_by) == (str(fleet.work_dir / "out"), "batch-script")


def test_one_script_submitted_twice_writes_over_itself(fleet):
    jobs = [fleet.job(1), fleet.job(2)]
    fleet.run(1, *jobs)
    fleet.save("ck/step_5.safetensors", 2)
    assert fleet.run(11, *jobs) == []  # each may still save somewhere else
    assert fleet.run(12, *jobs) == [("concurrent-writers", 1), ("concurrent-writers", 2)]
    assert fleet.run(13, jobs[0], fleet.job(2, state=JobState.COMPLETED, ends_at=minute(12.5))) == []


def test_two_jobs_that_write_over_each_others_saves_are_told_at_the_next_scan(fleet):
    jobs = [fleet.job(1), fleet.job(2)]
    fleet.run(0.2, *jobs)
    fleet.save("ck/epoch_1.safetensors", 0.5)
    assert fleet.run(1.5, *jobs) == []
    fleet.save("ck/epoch_1.safetensors", 1.6)  # by the other one
    assert fleet.run(3, *jobs) == [("concurrent-writers", 1), ("concurrent-writers", 2)]


def test_a_job_that_goes_back_in_what_another_saved_is_told_at_once(fleet):
    jobs = [fleet.job(1), fleet.job(2)]
    fleet.run(0.2, *jobs)
    for number, minutes in ((2, 0.6), (3, 0.8), (1, 0.9)):
        fleet.save(f"ck/epoch_{number}.safetensors", minutes)
    assert fleet.run(1.5, *jobs) == [("concurrent-writers", 1), ("concurrent-writers", 2)]


def test_one_script_submitted_again_writes_over_what_the_first_one_saves(fleet):
    first, second = fleet.job(1), fleet.job(2, start=10)
    fleet.save("ck/step_5.safetensors", 5)
    fleet.run(6, first)
    fleet.save("ck/step_6.safetensors", 15)
    fleet.run(24, first, second)
    assert fleet.run(25, first, second) == [("concurrent-writers", 1), ("concurrent-writers", 2)]


def test_nobody_becomes_a_writer_of_anothers_directory_by_naming_it(fleet):
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        others = Path(parent, "others")
        others.mkdir(mode=0o755)  # root's, or this user's without the right to write
        others.chmod(0o555 if os.geteuid() else 0o755)
        fleet.run(1, fleet.job(comment=f"ckpt={others}"))
        assert [row.directory for row in fleet.parts.store.jobs.list_open(minute(1))] == [None]
        others.chmod(0o755)
