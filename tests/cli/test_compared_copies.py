"""`ckptd verify --copies` on real files: what it says of each copy, what it records, and where this is shown."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from cli.one_job_site import JOB_ID, UID, OneJobSite
from support.flipped_byte import flip_a_byte

COUNTS = "{} with the same content, {} differ, {} unknown"


@pytest.fixture
def site():
    root = Path(tempfile.mkdtemp(prefix="ckptd-copies-"))
    root.chmod(0o755)
    made = OneJobSite(root)
    for name in ("archive", "project"):
        made.make_directory(f"home/{name}")
    made.queue("ckpt=ckpts:archive:project")
    yield made
    shutil.rmtree(root)


def copy(site, path, name="archive"):
    made = site.home / name / path.name
    shutil.copy2(path, made)
    os.chown(made, UID, -1)
    return made


def compare(site, *words):
    """Return the result, and the file or the reason, of each copy by its directory and name."""
    document = site.read("verify", str(JOB_ID), "--copies", *words)
    assert document["checkpoints"] == []
    return {
        "/".join(each["path"].split("/")[-2:]): (each["result"], each["differing_file"] or each["reason"])
        for each in document["copies"]
    }


def read_rules(site):
    return {each["rule"]: each["evidence"] for each in site.read("flags")["flags"]}


def read_view(site):
    [view] = site.read("show", str(JOB_ID))["runs"]
    return view, {Path(each["path"]).name: each["compared"] for each in view["locations"]}


def test_the_newest_complete_checkpoint_with_a_copy_is_compared_with_each_copy(site):
    saved = [site.save(epoch) for epoch in range(1, 4)]
    for path in saved[:2]:
        copy(site, path)
    flip_a_byte(copy(site, saved[1], "project"))
    site.run("once")
    assert compare(site) == {"archive/epoch_2.npz": ("same", None), "project/epoch_2.npz": ("differs", "epoch_2.npz")}
    view, compared = read_view(site)
    assert compared["ckpts"] is None
    assert (compared["archive"]["is_same"], compared["project"]["differing_file"]) == (True, "epoch_2.npz")
    assert not compared["archive"]["is_by_owner"]
    text = site.run("show", str(JOB_ID))
    assert f"copy: {site.home}/archive/epoch_2.npz has the same content as {saved[1]} (compared " in text
    assert f"copy: {site.home}/project/epoch_2.npz differs from {saved[1]} in epoch_2.npz (compared " in text
    assert {Path(each["path"]).name: each["checkpoints"] for each in view["locations"]} == {
        "ckpts": 3,
        "archive": 2,
        "project": 0,
    }


def test_a_copy_that_differs_is_flagged_until_it_is_copied_again(site):
    original = site.save(1)
    made = copy(site, original)
    flip_a_byte(made)
    site.run("once")
    assert "copy-differs" not in read_rules(site)
    compare(site)
    site.run("once")
    evidence = read_rules(site)["copy-differs"]
    assert (evidence["copy"], evidence["original"]) == (str(made), str(original))
    assert (evidence["differing_file"], evidence["is_by_owner"]) == ("epoch_1.npz", False)
    shutil.copy2(original, made)
    site.run("once")
    assert "copy-differs" not in read_rules(site)
    assert read_view(site)[1]["archive"] is None
    assert compare(site) == {"archive/epoch_1.npz": ("same", None)}


def test_a_copy_that_differs_is_never_the_newest_anywhere(site):
    path = site.save(1)
    copy(site, path)
    path = site.save(2)
    flip_a_byte(copy(site, path))
    site.run("once")
    compare(site)
    path.unlink()
    site.run("once")
    view, _ = read_view(site)
    assert view["newest_complete"]["path"] == f"{site.checkpoints}/epoch_1.npz"
    assert "copy-differs" in read_rules(site), "the original is gone, and its copy is wrong all the same"


def test_the_only_copy_that_differs_opens_one_flag(site):
    site.queue("ckpt=ckpts:archive")
    flip_a_byte(copy(site, site.save(1)))
    site.run("once")
    compare(site)
    site.run("once")
    assert {"copy-behind", "copy-differs"} & read_rules(site).keys() == {"copy-differs"}


def test_what_was_compared_is_read_again_only_on_request_and_after_a_change(site):
    path = site.save(1)
    for name in ("archive", "project"):
        copy(site, path, name)
    site.run("once")
    assert len(compare(site)) == 2
    assert compare(site) == {}
    assert site.run("verify", "--all", "--copies").splitlines() == [
        COUNTS.format(0, 0, 0),
        "2 had the same content before; to read them again, use --again",
    ]
    assert len(compare(site, "--again")) == 2
    copy(site, path, "project")
    site.run("once")
    assert compare(site) == {"project/epoch_1.npz": ("same", None)}


def test_a_copy_that_differs_stays_a_problem_however_often_it_is_compared(site):
    """The exit status of a timer must not become 0 as long as nobody copied again."""
    path = site.save(1)
    copy(site, path)
    flip_a_byte(copy(site, path, "project"))
    site.run("once")
    assert len(compare(site)) == 2
    assert compare(site) == {"project/epoch_1.npz": ("differs", "epoch_1.npz")}


def test_a_copy_that_changed_since_the_last_scan_stays_unknown_and_nothing_is_recorded(site):
    path = site.save(1)
    made = copy(site, path)
    site.run("once")
    flip_a_byte(made)
    reason = "its files have changed since the last scan"
    assert compare(site) == {"archive/epoch_1.npz": ("unknown", reason)}
    assert read_view(site)[1]["archive"] is None


def test_an_original_that_cannot_be_read_says_nothing_about_its_copies(site):
    path = site.save(1)
    copy(site, path)
    site.run("once")
    path.unlink()
    reason = f"its original {path}: epoch_1.npz: No such file or directory"
    assert compare(site) == {"archive/epoch_1.npz": ("unknown", reason)}


def test_a_later_save_over_the_original_is_no_reason_to_call_its_copy_wrong(site):
    """A file that each save overwrites has the same name and size: only the save before it was copied."""
    path = site.save(1)
    made = copy(site, path)
    os.utime(path, (site.began + 3600,) * 2)
    flip_a_byte(path)
    site.run("once")
    assert compare(site) == {}, made


@pytest.mark.parametrize("seconds", [0, 1, 60])
@pytest.mark.parametrize("by", [shutil.copy, shutil.copy2])
def test_checkpoints_of_equal_names_and_sizes_are_compared_with_their_own_copies(site, by, seconds):
    """Each fold of a cross-validation saves its own `epoch_1.npz`; `cp` gives both copies a new date."""
    for number, name in enumerate(("fold_1", "fold_2")):
        for place in ("ckpts", "archive"):
            site.make_directory(f"home/{place}/{name}")
        path = site.save(1).rename(site.checkpoints / name / "epoch_1.npz")
        if number:
            flip_a_byte(path)
        os.utime(path, (site.began + number * seconds,) * 2)
        made = by(path, site.home / "archive" / name)
        os.chown(made, UID, -1)
    site.run("once")
    newest = {0: {"fold_1"}, 1: {"fold_2"}, 60: {"fold_2"}}[seconds]
    assert compare(site) == {f"{name}/epoch_1.npz": ("same", None) for name in newest}


def test_a_copy_that_may_be_of_several_checkpoints_is_not_compared(site):
    for number, name in enumerate(("fold_1", "fold_2")):
        site.make_directory(f"home/ckpts/{name}")
        path = site.save(1).rename(site.checkpoints / name / "epoch_1.npz")
        os.utime(path, (site.began + number,) * 2)
    flip_a_byte(copy(site, path))
    site.run("once")
    assert compare(site) == {}


def test_a_copy_below_a_further_directory_is_compared(site):
    path = site.save(1)
    site.make_directory("home/archive/run_1")
    copy(site, path, "archive/run_1")
    site.run("once")
    assert compare(site) == {"run_1/epoch_1.npz": ("same", None)}


def test_lines_for_a_pipe_and_the_sums(site):
    path = site.save(1)
    copy(site, path)
    flip_a_byte(copy(site, path, "project"))
    site.run("once")
    lines = site.run("verify", str(JOB_ID), "--copies").splitlines()
    assert lines[0].split("\t") == ["result", "copy", "size", "first file that differs, or reason"]
    assert [line.split("\t")[::3] for line in lines[1:3]] == [["same", "-"], ["differs", "epoch_1.npz"]]
    assert lines[3:] == [COUNTS.format(1, 1, 0)]


def test_a_run_without_copies_is_nothing_to_compare(site):
    site.save(1)
    site.run("once")
    assert compare(site) == {}
    assert (
        site.run("verify", str(JOB_ID), "--copies")
        == "No copy of a complete checkpoint is on record that can be compared.\n"
    )
