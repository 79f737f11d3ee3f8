"""`ckptd show` names the newest file of no known format, as text and as JSON."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from cli.one_job_site import JOB_ID, UID, OneJobSite


@pytest.fixture
def site():
    root = Path(tempfile.mkdtemp(prefix="ckptd-unrecognised-"))
    root.chmod(0o755)
    made = OneJobSite(root)
    made.queue("ckpt=ckpts")
    yield made
    shutil.rmtree(root)


def test_show_names_a_file_that_may_be_a_checkpoint_until_there_is_one(site):
    made = site.checkpoints / "fort.20"
    made.write_bytes(b"\x10\0\0\0\xcd\xcc\xcc\xcc" * 256)
    os.chown(made, UID, -1)
    site.run("once")
    [view] = site.read("show", str(JOB_ID))["runs"]
    assert (view["unrecognised"]["path"], view["unrecognised"]["size_bytes"]) == (str(made), 2048)
    assert f"the newest other file, {made} (2.0 KiB), may be one" in site.run("show", str(JOB_ID))
    site.save(1)
    site.run("once")
    [view] = site.read("show", str(JOB_ID))["runs"]
    assert view["unrecognised"] is None
