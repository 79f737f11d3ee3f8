"""A job with two locations, from `ckptd once` on a replayed queue to what `jobs` and `show` print."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from cli.one_job_site import JOB_ID, UID, OneJobSite


@pytest.fixture
def site():
    root = Path(tempfile.mkdtemp(prefix="ckptd-locations-"))
    root.chmod(0o755)
    made = OneJobSite(root)
    made.make_directory("home/archive")
    made.queue("ckpt=ckpts:archive:/etc")
    yield made
    shutil.rmtree(root)


def copy(site, path):
    made = site.home / "archive" / path.name
    shutil.copy2(path, made)
    os.chown(made, UID, -1)


def test_once_scans_every_location_and_the_commands_say_where_the_newest_complete_checkpoint_is(site):
    primary, archive = site.checkpoints, site.home / "archive"
    for epoch in range(1, 4):
        copy(site, site.save(epoch))
    (primary / "epoch_3.npz").unlink()
    site.run("once")
    [job] = site.read("jobs")["jobs"]
    assert job["directory"] == str(primary)
    assert job["locations"] == [str(primary), str(archive), "/etc"]
    [view] = site.read("show", str(JOB_ID))["runs"]
    assert [(each["path"], each["checkpoints"]) for each in view["locations"]] == [
        (str(primary), 2),
        (str(archive), 3),
        ("/etc", 0),
    ]
    assert view["locations"][2]["trouble"] == "it is outside the site's allowed roots"
    assert view["newest_complete"]["path"] == f"{archive}/epoch_3.npz"
    assert view["newest_complete"]["certainty"] == "inferred"  # nobody knows what is in /etc
    text = site.run("show", str(JOB_ID))
    assert f"newest complete checkpoint: {archive}/epoch_3.npz, saved" in text


def test_once_flags_a_missing_copy(site):
    saved = [site.save(epoch) for epoch in range(1, 4)]
    site.run("once")
    [flag] = [each for each in site.read("flags")["flags"] if each["rule"] == "copy-behind"]
    assert flag["evidence"]["directory"] == str(site.home / "archive")
    assert flag["evidence"]["newest_copy"] is None
    for path in saved:
        copy(site, path)
    site.run("once")
    rules = [each["rule"] for each in site.read("flags")["flags"]]
    assert "copy-behind" not in rules
