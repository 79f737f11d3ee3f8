"""Runs whose checkpoints are copied to further directories, as their jobs, owners and the site name them."""

import os
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from checkpoints.formats.real_files import DATA
from ckptd.checkpoints.scanning.locate import SiteRule
from ckptd.core.model import JobState, RunKey
from ckptd.present import flag_texts, models
from steps.replayed_fleet import UID, minute

CUT = b"\x08\0\0\0\0\0"


@pytest.fixture
def archive(fleet):
    return make_directory(fleet.work_dir.parent / "archive")


def make_directory(path, uid=UID):
    path.mkdir()
    os.chown(path, uid, uid)
    return path


def copy(fleet, name, target, minutes=None):
    """Copy a checkpoint as rsync --times does, or with the time of copying, as cp does."""
    source = fleet.work_dir / name
    made = target / source.name
    shutil.copy2(source, made)
    os.chown(made, UID, UID)
    if minutes is not None:
        os.utime(made, (minute(minutes).timestamp(),) * 2)


def read(fleet, job_id=1):
    [run] = fleet.parts.store.runs.find_of_job(job_id)
    [history] = fleet.parts.store.histories.read("c1", [run])
    return history


def save_and_copy(fleet, job, archive, saves, *, every=10):
    """Save at a pace, and copy each checkpoint a minute later; scan after each."""
    for number in saves:
        at = number * every
        fleet.save(f"ck/step_{number}.safetensors", at)
        fleet.run(at + 1, job)
        copy(fleet, f"ck/step_{number}.safetensors", archive)
        fleet.run(at + 2, job)


@pytest.mark.parametrize("named", ["comment", "user-file", "watch"])
def test_each_declaration_names_a_primary_location_and_copies(fleet, archive, named):
    comment = ""
    if named == "comment":
        comment = f"ckpt=ck:{archive}"
    elif named == "user-file":
        (fleet.work_dir / ".ckptd.toml").write_text(f'directories = ["ck", "{archive}"]\n')
    else:
        rule = SiteRule(directories=("{work_dir}/ck", str(archive)))
        fleet.parts = replace(fleet.parts, site_rules=(rule,))
    job = fleet.job(comment=comment)
    fleet.save("ck/step_1.safetensors", 1)
    fleet.run(2, job)
    copy(fleet, "ck/step_1.safetensors", archive)
    fleet.run(4, job)
    history = read(fleet)
    assert history.key == RunKey("c1", UID, f"{fleet.work_dir}/ck")
    assert history.located_by == named
    [location] = history.copies
    assert location.directory == str(archive)
    assert [each.checkpoint.path.name for each in location.checkpoints] == ["step_1.safetensors"]
    assert [row.directory for row in fleet.parts.store.jobs.list_open(minute(4))] == [f"{fleet.work_dir}/ck"]


def test_a_name_with_a_colon_is_one_location_where_it_exists(fleet):
    fleet.save("run:2/step_1.safetensors", 1)
    fleet.run(2, fleet.job(comment="ckpt=run:2"))
    assert read(fleet).key.directory == f"{fleet.work_dir}/run:2"
    assert read(fleet).copies == ()


def test_copies_that_fall_behind_are_flagged_once_and_until_they_have_caught_up(fleet, archive):
    job = fleet.job(comment=f"ckpt=ck:{archive}")
    save_and_copy(fleet, job, archive, range(1, 7))
    assert fleet.flags() == []
    opened = {}
    for number in range(7, 15):
        fleet.save(f"ck/step_{number}.safetensors", number * 10)
        opened[number] = fleet.run(number * 10 + 1, job)
    assert [number for number, flags in opened.items() if flags] == [10, 11, 12, 13, 14]
    assert opened[10] == [("copy-behind", 1)]
    [flag] = fleet.parts.store.flags.list_open("c1")
    text = flag_texts.make_recorded_text(flag.finding)
    assert text.statement == (
        f"The copies in {archive} are 1 h 20 min behind; usually, they are 10 min behind. The newest complete "
        f"checkpoint is {fleet.work_dir}/ck/step_14.safetensors; the newest complete copy is "
        f"{archive}/step_6.safetensors."
    )
    copy(fleet, "ck/step_11.safetensors", archive)
    assert fleet.run(142, job) == [("copy-behind", 1)]  # 30 min are as much as it may be
    copy(fleet, "ck/step_14.safetensors", archive)
    assert fleet.run(143, job) == []


def test_copies_do_not_fall_behind_while_the_job_waits_in_the_queue(fleet, archive):
    comment = f"ckpt=ck:{archive}"
    save_and_copy(fleet, fleet.job(comment=comment), archive, range(1, 7))
    fleet.run(65, fleet.job(comment=comment, state=JobState.PENDING, restart_count=1, started_at=None))
    again = fleet.job(comment=comment, start=600, restart_count=1)
    opened = {}
    for number in range(61, 67):
        fleet.save(f"ck/step_{number}.safetensors", number * 10)
        opened[number] = fleet.run(number * 10 + 1, again)
    assert [number for number, flags in opened.items() if ("copy-behind", 1) in flags] == [64, 65, 66]


def test_a_last_save_that_its_job_had_no_time_to_copy_is_no_failure_of_the_copies(fleet, archive):
    comment = f"ckpt=ck:{archive}"
    save_and_copy(fleet, fleet.job(comment=comment), archive, range(1, 7))
    fleet.save("ck/step_7.safetensors", 63)
    fleet.run(65, fleet.job(comment=comment, state=JobState.PENDING, restart_count=1, started_at=None))
    again = fleet.job(comment=comment, start=600, restart_count=1)
    opened = {}
    for number in range(61, 67):
        fleet.save(f"ck/step_{number}.safetensors", number * 10)
        opened[number] = fleet.run(number * 10 + 1, again)
    assert [number for number, flags in opened.items() if ("copy-behind", 1) in flags] == [63, 64, 65, 66]


def test_the_backup_beside_a_copy_is_not_the_newest_one(fleet, archive):
    """GROMACS copies the state before to `state_prev.cpt` after it has written `state.cpt`."""
    content = (DATA / "gromacs/state_step6700.cpt").read_bytes()
    fleet.save("ck/state_prev.cpt", 10.02, content)
    fleet.save("ck/state.cpt", 10, content.replace(struct.pack(">iq", 1, 6700), struct.pack(">iq", 1, 9900)))
    for name in ("state.cpt", "state_prev.cpt"):
        copy(fleet, f"ck/{name}", archive)
    fleet.run(12, fleet.job(comment=f"ckpt=ck:{archive}"))
    view = models.run_view(read(fleet), (), minute(12))
    names = [each["newest_complete"] for each in view["locations"]]
    assert names == [f"{fleet.work_dir}/ck/state.cpt", f"{archive}/state.cpt"]


def test_copies_with_the_time_of_copying_are_as_old_as_their_originals(fleet, archive):
    job = fleet.job(comment=f"ckpt=ck:{archive}")
    save_and_copy(fleet, job, archive, range(1, 7))
    for number in range(7, 12):
        fleet.save(f"ck/step_{number}.safetensors", number * 10)
        fleet.run(number * 10 + 1, job)
    copy(fleet, "ck/step_2.safetensors", archive, minutes=112)  # again, and that is no progress
    assert fleet.run(113, job) == [("copy-behind", 1)]


def test_copies_that_end_of_one_file_that_is_overwritten_are_behind(fleet, archive):
    """The only checkpoint that was not copied is then the newest one, whatever was saved in between."""
    job = fleet.job(comment=f"ckpt=ck:{archive}")
    content = (DATA / "gromacs/state_step6700.cpt").read_bytes()
    for number in range(1, 12):
        fleet.save(
            "ck/state.cpt", number * 10, content.replace(struct.pack(">iq", 1, 6700), struct.pack(">iq", 1, number))
        )
        fleet.run(number * 10 + 1, job)
        if number < 7:
            copy(fleet, "ck/state.cpt", archive)
            assert fleet.run(number * 10 + 2, job) == []
    assert fleet.flags() == [("copy-behind", 1)]


def test_a_location_without_any_copy_is_flagged_after_a_day(fleet, archive):
    job = fleet.job(start=-1600, comment=f"ckpt=ck:{archive}")
    for minutes in (-1438, -1200, -900, -600, -300, -10):
        fleet.save(f"ck/step_{2000 + minutes}.safetensors", minutes)
    fleet.run(1, job)
    assert ("copy-behind", 1) not in fleet.flags()
    rule = next(each for each in fleet.parts.rules if each.name == "copy-behind")
    assert rule.first_after.total_seconds() == 86_400
    fleet.run(3, job)
    assert ("copy-behind", 1) in fleet.flags()


def test_a_location_that_cannot_be_read_opens_and_resolves_nothing(fleet, archive):
    job = fleet.job(comment=f"ckpt=ck:{archive}")
    save_and_copy(fleet, job, archive, range(1, 7))
    archive.chmod(0o000)
    for number in range(7, 15):
        fleet.save(f"ck/step_{number}.safetensors", number * 10)
        assert fleet.run(number * 10 + 1, job) == []
    assert len([each for each in read(fleet).checkpoints if each.deleted_at is None]) == 14  # the other one was read
    archive.chmod(0o755)
    assert ("copy-behind", 1) in fleet.run(175, job)  # a failed scan is repeated later and later
    archive.chmod(0o000)
    assert ("copy-behind", 1) in fleet.run(178, job)


def test_a_restart_whose_only_checkpoint_is_a_copy_has_one(fleet, archive):
    job = fleet.job(comment=f"ckpt=ck:{archive}")
    save_and_copy(fleet, job, archive, range(1, 4))
    shutil.rmtree(fleet.work_dir / "ck")
    make_directory(fleet.work_dir / "ck")
    fleet.run(38, job)
    again = fleet.job(start=41, restart_count=1, submitted_at=minute(40), comment=f"ckpt=ck:{archive}")
    fleet.run(43, again)
    assert "restarted-without-checkpoint" not in dict(fleet.flags())
    shutil.rmtree(archive)
    make_directory(archive)
    fleet.run(50, again)
    third = fleet.job(start=61, restart_count=2, submitted_at=minute(60), comment=f"ckpt=ck:{archive}")
    fleet.run(63, third)
    assert "restarted-without-checkpoint" in dict(fleet.flags())


def test_nothing_is_said_of_a_restart_while_a_copy_cannot_be_read(fleet, archive):
    job = fleet.job(comment=f"ckpt=ck:{archive}")
    save_and_copy(fleet, job, archive, range(1, 4))
    shutil.rmtree(fleet.work_dir / "ck")
    make_directory(fleet.work_dir / "ck")
    fleet.run(38, job)
    shutil.rmtree(archive)
    make_directory(archive)
    fleet.run(40, job)
    archive.chmod(0o000)
    again = fleet.job(start=41, restart_count=1, submitted_at=minute(40), comment=f"ckpt=ck:{archive}")
    fleet.run(43, again)
    assert fleet.flags() == [("checkpoints-not-located", 1)]
    [flag] = fleet.parts.store.flags.list_open("c1")
    assert flag_texts.make_recorded_text(flag.finding).statement == (
        f"This job restarted, and ckptd cannot tell whether it resumed: {fleet.work_dir}/ck had no complete "
        f"checkpoint, and {archive} could not be read."
    )


def test_a_damaged_checkpoint_names_its_complete_copy(fleet, archive):
    job = fleet.job(comment=f"ckpt=ck:{archive}")
    save_and_copy(fleet, job, archive, range(1, 4))
    path = fleet.work_dir / "ck/step_3.safetensors"
    path.write_bytes(CUT)
    os.utime(path, (minute(30).timestamp(),) * 2)
    fleet.run(50, job)
    [flag] = fleet.parts.store.flags.list_open("c1")
    assert flag.finding.rule == "damaged-checkpoint"
    assert flag.finding.evidence["newest_good"] == f"{archive}/step_3.safetensors"


def test_a_job_that_saves_into_the_copies_only_has_saved(fleet, archive):
    make_directory(fleet.work_dir / "ck")
    job = fleet.job(comment=f"ckpt=ck:{archive}")
    fleet.save("step_1.safetensors", 5)
    (fleet.work_dir / "step_1.safetensors").rename(archive / "step_1.safetensors")
    fleet.run(70, job)
    assert "no-checkpoint-yet" not in dict(fleet.flags())


def test_a_directory_that_two_runs_copy_to_is_scanned_once_and_is_no_run(fleet, archive):
    jobs = [fleet.job(number, comment=f"ckpt=ck{number}:{archive}") for number in (1, 2)]
    for number in (1, 2):
        fleet.save(f"ck{number}/step_{number}.safetensors", 1)
        copy(fleet, f"ck{number}/step_{number}.safetensors", archive)
    fleet.run(2, *jobs)
    fleet.run(4, *jobs)
    assert fleet.flags() == []
    for number in (1, 2):
        [location] = read(fleet, number).copies
        assert len(location.checkpoints) == 2
    watched = [each.key.directory for each in fleet.state.watchlist.all]
    assert watched.count(str(archive)) == 1


@pytest.mark.parametrize("named", ["ck", "./ck/", "ck/inside", ".", "link"])
def test_a_location_inside_another_is_none_of_its_own(fleet, named):
    fleet.save("ck/inside/step_1.safetensors", 1)
    fleet.save("ck/step_1.safetensors", 1)
    (fleet.work_dir / "link").symlink_to("ck")
    fleet.run(2, fleet.job(comment=f"ckpt=ck:{named}"))
    copies = read(fleet).copies
    if named != ".":
        assert copies == ()
    else:
        [location] = copies
        assert location.scan.reason == f"{fleet.work_dir}/ck is inside it: name a directory beside it"
        assert location.checkpoints == ()


def test_hostile_locations_are_not_opened(fleet):
    parent = fleet.work_dir.parent
    others = make_directory(parent / "others", UID + 1)
    (fleet.work_dir / "link").symlink_to(others)
    fleet.save("ck/step_1.safetensors", 1)
    fleet.run(2, fleet.job(comment=f"ckpt=ck:link:/proc/self:{parent}/others:~nobody:x\x1b[31m"))
    locations = {each.directory: each.scan.reason for each in read(fleet).copies if each.scan is not None}
    assert locations["link"] == "the job's user cannot write there"
    assert locations[f"{parent}/others"] == "the job's user cannot write there"
    assert locations["/proc/self"]
    assert {each.key.directory for each in fleet.state.watchlist.all} == {f"{fleet.work_dir}/ck"}


def test_a_thousand_locations_in_one_comment_are_cut(fleet):
    fleet.save("ck/step_1.safetensors", 1)
    names = ":".join(f"d{number}" for number in range(999))
    fleet.run(2, fleet.job(comment=f"ckpt=ck:{names}"))
    copies = read(fleet).copies
    assert len(copies) == 8
    assert copies[-1].scan.reason == "1000 locations are named, and ckptd uses the first 8 only"


def test_a_copy_that_is_made_later_is_found(fleet):
    job = fleet.job(comment="ckpt=ck:late")
    fleet.save("ck/step_1.safetensors", 1)
    fleet.run(2, job)
    [location] = read(fleet).copies
    assert location.is_absent
    late = make_directory(fleet.work_dir / "late")
    copy(fleet, "ck/step_1.safetensors", late)
    fleet.run(8, job)
    fleet.run(10, job)
    [location] = read(fleet).copies
    assert [each.checkpoint.path.name for each in location.checkpoints] == ["step_1.safetensors"]


def test_a_daemon_that_starts_again_watches_the_copies(fleet, agent, archive, tmp_path):
    job = fleet.job(comment=f"ckpt=ck:{archive}")
    save_and_copy(fleet, job, archive, range(1, 3))
    successor = type(fleet)(agent, f"sqlite:///{tmp_path}/ckptd.sqlite3", fleet.work_dir)
    assert {each.key.directory for each in successor.state.watchlist.all} == {f"{fleet.work_dir}/ck", str(archive)}
    successor.parts.store.close()


def test_a_location_that_is_no_longer_named_is_no_longer_watched(fleet, archive):
    job = fleet.job(comment=f"ckpt=ck:{archive}")
    save_and_copy(fleet, job, archive, range(1, 3))
    fleet.run(30, replace(job, comment="ckpt=ck"))
    fleet.run(32)
    fleet.run(34)
    assert read(fleet).copies == ()
    assert {each.key.directory for each in fleet.state.watchlist.all} == {f"{fleet.work_dir}/ck"}


def test_a_primary_location_that_is_not_there_yet_leaves_the_copies_known(fleet, archive):
    make_file = archive / "step_1.safetensors"
    make_file.write_bytes(b"\x08\0\0\0\0\0\0\0{}      ")
    os.chown(make_file, UID, UID)
    fleet.run(2, fleet.job(comment=f"ckpt=ck:{archive}"))
    fleet.run(4)
    history = read(fleet)
    assert not history.key.is_located
    [location] = history.copies
    assert len(location.checkpoints) == 1
    assert Path(location.directory) == archive
    fleet.save("ck/step_2.safetensors", 5)
    fleet.run(6)
    assert read(fleet).key.directory == f"{fleet.work_dir}/ck"
    assert [each.directory for each in read(fleet).copies] == [str(archive)]


def test_the_newest_complete_copy_is_shown(fleet, archive):
    job = fleet.job(comment=f"ckpt=ck:{archive}")
    save_and_copy(fleet, job, archive, range(1, 4))
    (fleet.work_dir / "ck/step_3.safetensors").unlink()
    fleet.run(40, job)
    view = models.run_view(read(fleet), (), minute(40))
    assert [(each["path"], each["role"]) for each in view["locations"]] == [
        (f"{fleet.work_dir}/ck", "primary"),
        (str(archive), "copy"),
    ]
    assert view["newest_complete"]["path"] == f"{archive}/step_3.safetensors"
    assert view["newest_complete"]["location"] == str(archive)


def test_a_restart_that_finds_its_checkpoint_in_a_copy_only_resumed_from_that(fleet, archive):
    comment = f"ckpt=ck:{archive}"
    job = fleet.job(comment=comment)
    save_and_copy(fleet, job, archive, range(1, 4))
    shutil.rmtree(fleet.work_dir / "ck")
    make_directory(fleet.work_dir / "ck")
    fleet.run(38, job)
    again = fleet.job(start=41, restart_count=1, submitted_at=minute(40), comment=comment)
    fleet.run(43, again)
    fleet.save("ck/step_4.safetensors", 52)
    fleet.run(54, again)
    resumed = read(fleet).attempts[-1].resumed_from
    assert not resumed.is_fresh
    assert {each.path for each in resumed.candidates} >= {f"{archive}/step_3.safetensors"}


def test_work_that_only_a_copy_still_has_is_not_lost(fleet, archive):
    comment = f"ckpt=ck:{archive}"
    job = fleet.job(comment=comment)
    save_and_copy(fleet, job, archive, range(1, 4))
    shutil.rmtree(fleet.work_dir / "ck")
    make_directory(fleet.work_dir / "ck")
    fleet.run(35, job)
    fleet.run(41, replace(job, state=JobState.FAILED, ends_at=minute(40)))
    fleet.run(43)
    [line] = fleet.parts.store.lost_work.list_lines(read(fleet).key)
    assert line.loss.lost.total_seconds() == 600
    assert line.loss.saved_at == minute(30)
