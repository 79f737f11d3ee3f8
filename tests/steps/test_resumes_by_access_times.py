"""What a restarted job read, through real scans by the agent, real access times and the record."""

import io
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from ckptd.core.model import Certainty, JobState, ResumeReason
from ckptd.present.resume_texts import describe_resume
from demo.patience import allow
from steps.replayed_fleet import UID, minute

START = 600  # hours in the future, however late it is run: no file can be changed at an instant of a test's choice


@pytest.fixture
def work_dir():
    """A directory on a file system that keeps access times."""
    parent = Path(tempfile.mkdtemp(prefix="ckptd-atime-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "relatime,mode=755", "tmpfs", parent], check=True, timeout=allow(30))
    try:
        directory = parent / "run"
        directory.mkdir()
        os.chown(directory, UID, UID)
        parent.chmod(0o755)
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", parent], check=True, timeout=allow(30))
        shutil.rmtree(parent, ignore_errors=True)


def put(fleet, name, minutes, read_minute=None):
    """Save a state that tells no progress, perhaps read later."""
    content = io.BytesIO()
    np.savez(content, **{"opt/mu": np.arange(10.0)}, weights=np.arange(100.0))
    fleet.save(f"ckpts/ckpt_{name}.npz", minutes, content.getvalue())
    if read_minute is not None:
        set_read(fleet, name, minutes, read_minute)


def set_read(fleet, name, minutes, read_minute):
    times = (minute(read_minute).timestamp(), minute(minutes).timestamp())
    os.utime(fleet.work_dir / f"ckpts/ckpt_{name}.npz", times)


@pytest.fixture
def restarted(fleet):
    """A job that has saved three states, was requeued, and has just started again."""
    fleet.run(1, fleet.job(comment=f"ckpt={fleet.work_dir}/ckpts"))
    for number, name in enumerate(("red", "green", "blue"), 1):
        put(fleet, name, 10 * number)
        fleet.run(10 * number + 2)
    fleet.run(55, fleet.job(state=JobState.PENDING, restart_count=1, started_at=None))
    restart(fleet, START + 1)
    return fleet


def restart(fleet, minutes):
    return fleet.run(minutes, fleet.job(start=START, restart_count=1, comment=f"ckpt={fleet.work_dir}/ckpts"))


def resume_of(fleet):
    (run,) = fleet.parts.store.runs.list_keys()
    (history,) = fleet.parts.store.histories.read("c1", [run])
    return history.attempts[-1].resumed_from


def test_the_one_that_was_read_after_the_start_is_what_it_resumed_from(restarted):
    set_read(restarted, "green", 20, START + 2)
    restart(restarted, START + 3)
    assert resume_of(restarted).reason is ResumeReason.NOT_SAVED
    (restarted.work_dir / "ckpts/ckpt_red.npz").unlink()  # by the job: what it has read by then is on record
    put(restarted, "black", START + 5)
    restart(restarted, START + 7)
    found = resume_of(restarted)
    assert (found.certainty, found.reason) == (Certainty.INFERRED, ResumeReason.ACCESS)
    assert found.path == f"{restarted.work_dir}/ckpts/ckpt_green.npz"
    assert describe_resume(found, f"{restarted.work_dir}/ckpts") == (
        "ckpt_green.npz, probably: it was read 2 min after the start, and the other 2 that it may have loaded were not"
    )
    restart(restarted, START + 9)
    assert resume_of(restarted).path == found.path


def test_a_backup_that_reads_all_of_them_tells_nothing(restarted):
    for number, name in enumerate(("red", "green", "blue"), 1):
        set_read(restarted, name, 10 * number, START + 2)
    restart(restarted, START + 3)
    put(restarted, "black", START + 5)
    restart(restarted, START + 7)
    assert resume_of(restarted).certainty is Certainty.UNKNOWN


def test_without_a_read_nothing_is_recorded_and_the_record_stays_as_it_is(restarted):
    (run,) = restarted.parts.store.runs.list_keys()
    before = restarted.parts.store.runs.read_revisions_of([run])
    restart(restarted, START + 3)
    restart(restarted, START + 5)
    assert restarted.parts.store.runs.read_revisions_of([run]) == before
    assert resume_of(restarted).reads == ()
