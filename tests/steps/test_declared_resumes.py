"""What jobs say in `.ckptd/resumed` that they loaded, through real scans into the record."""

import io
import json
import os
from functools import partial

import numpy as np
import pytest

from ckptd.core.model import Certainty, JobState, ResumeReason
from ckptd.present.resume_texts import describe_resume
from steps.replayed_fleet import UID, minute


def epoch(number):
    content = io.BytesIO()
    np.savez(content, **{"opt/mu": np.arange(10.0)}, weights=np.arange(100.0), epoch=number)
    return content.getvalue()


def save(fleet, number, minutes):
    fleet.save(f"ckpts/epoch_{number}.npz", minutes, epoch(number))


@pytest.fixture
def begun(fleet):
    """A job that saves an epoch each ten minutes, and is requeued after 55."""
    fleet.run(1, fleet.job(comment=f"ckpt={fleet.work_dir}/ckpts"))
    for number in range(1, 6):
        save(fleet, number, 10 * number)
        fleet.run(10 * number + 1)
    fleet.run(55, fleet.job(state=JobState.PENDING, restart_count=1, started_at=None))
    return fleet


def restart(fleet, minutes):
    return fleet.run(minutes, fleet.job(start=60, restart_count=1, comment=f"ckpt={fleet.work_dir}/ckpts"))


def path_of(fleet, number):
    return f"{fleet.work_dir}/ckpts/epoch_{number}.npz"


def say(fleet, text, minutes=61):
    folder = fleet.work_dir / ".ckptd"
    folder.mkdir(exist_ok=True)
    with (folder / "resumed").open("a") as file:
        file.write(text)
    for place in (folder, folder / "resumed"):
        os.chown(place, UID, UID)
    os.utime(folder / "resumed", (minute(minutes).timestamp(),) * 2)


def line(fleet, number, **changes):
    return json.dumps({"path": path_of(fleet, number), "cluster": "c1", "job": 1, "restart": 1} | changes) + "\n"


def resume_of(fleet):
    (run,) = fleet.parts.store.runs.list_keys()
    (history,) = fleet.parts.store.histories.read("c1", [run])
    return history.attempts[-1].resumed_from


def said(fleet):
    found = resume_of(fleet)
    return found.certainty, found.path and found.path.rpartition("/")[2]


def test_a_job_is_believed_about_what_it_loaded(begun):
    say(begun, line(begun, 2))
    restart(begun, 62)
    assert said(begun) == (Certainty.DECLARED, "epoch_2.npz")
    save(begun, 3, 70)
    restart(begun, 72)
    assert said(begun) == (Certainty.DECLARED, "epoch_2.npz")


def test_a_word_that_progress_contradicts_is_not_believed(begun):
    say(begun, line(begun, 5))
    restart(begun, 62)
    assert said(begun) == (Certainty.DECLARED, "epoch_5.npz")
    save(begun, 3, 70)
    restart(begun, 72)
    assert said(begun) == (Certainty.INFERRED, "epoch_2.npz")
    text = describe_resume(resume_of(begun), f"{begun.work_dir}/ckpts")
    assert text.endswith("; the job says that it loaded epoch_5.npz, which its progress contradicts")


def test_a_bare_path_counts_for_the_attempt_that_was_under_way_when_it_was_written(begun):
    say(begun, f"{path_of(begun, 4)}\n")
    restart(begun, 62)
    assert said(begun) == (Certainty.DECLARED, "epoch_4.npz")
    say(begun, f"{path_of(begun, 1)}\n", minutes=5)
    restart(begun, 64)
    assert said(begun) == (Certainty.DECLARED, "epoch_4.npz")


def test_what_is_said_after_the_first_scan_counts(begun):
    restart(begun, 62)
    assert said(begun) == (Certainty.UNKNOWN, None)
    say(begun, line(begun, 2), minutes=63)
    restart(begun, 64)
    assert said(begun) == (Certainty.DECLARED, "epoch_2.npz")


def test_the_word_of_another_attempt_job_or_cluster_counts_for_nothing(begun):
    for changes in ({"restart": 0}, {"job": 2}, {"cluster": "c2"}, {"time": minute(10).isoformat()}):
        say(begun, line(begun, 2, **changes))
    restart(begun, 62)
    assert said(begun) == (Certainty.UNKNOWN, None)


def become_link(file, elsewhere):
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


def become_fifo(file, _elsewhere):
    file.unlink()
    os.mkfifo(file)


def become_anothers(file, _elsewhere):
    os.chown(file, UID + 1, UID + 1)


def become_huge(file, _elsewhere):
    with file.open("a") as opened:
        opened.write("/" + "x" * (2 << 20))


@pytest.mark.parametrize("change", [become_link, become_fifo, become_anothers, become_huge])
def test_a_hostile_file_says_nothing_and_every_candidate_stays(begun, tmp_path, change):
    if change is become_anothers and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    say(begun, line(begun, 2))
    change(begun.work_dir / ".ckptd/resumed", tmp_path / "elsewhere")
    restart(begun, 62)
    found = resume_of(begun)
    assert (found.certainty, found.reason) == (Certainty.UNKNOWN, ResumeReason.NOT_SAVED)
    assert len(found.candidates) == 5
    (run,) = begun.parts.store.runs.list_keys()
    (history,) = begun.parts.store.histories.read("c1", [run])
    assert history.scan.is_whole


def test_the_files_are_read_only_while_a_question_is_open(begun, monkeypatch):
    asked = []
    scan_runs = partial(_spy, begun.parts.agent.run, asked)
    monkeypatch.setattr(begun.parts.agent, "run", scan_runs)
    say(begun, line(begun, 2))
    restart(begun, 62)
    for number in (3, 4, 5, 6):
        save(begun, number, 40 + 10 * number)
        restart(begun, 41 + 10 * number)
    restart(begun, 110)
    assert asked[0] == [1]
    assert asked[-1] == []


def _spy(run, asked, batches):
    asked.extend(item["resuming_jobs"] for batch in batches if batch.operation == "scan" for item in batch.items)
    return run(batches)
