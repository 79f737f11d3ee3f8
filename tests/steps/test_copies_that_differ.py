"""Copies that a comparison has shown to differ from their original, in what a daemon records of a run."""

import shutil
from dataclasses import replace

import pytest

from ckptd.core.model import ContentComparison, JobState
from ckptd.core.runs.compared_content import identify_files
from steps.replayed_fleet import minute
from steps.test_several_locations import make_directory, read, save_and_copy


@pytest.mark.parametrize(("differing_file", "saved_at"), [("step_3.safetensors", 20), (None, 30)])
@pytest.mark.parametrize("is_compared_late", [False, True])
def test_a_copy_that_differs_saves_no_work(fleet, differing_file, saved_at, is_compared_late):
    archive = make_directory(fleet.work_dir.parent / "archive")
    comment = f"ckpt=ck:{archive}"
    job = fleet.job(comment=comment)
    save_and_copy(fleet, job, archive, range(1, 4))

    def record_comparison():
        history = read(fleet)
        [copy] = [each for each in history.copies[0].checkpoints if each.checkpoint.path.name == "step_3.safetensors"]
        original, files = f"{fleet.work_dir}/ck/step_3.safetensors", identify_files(copy.checkpoint)
        found = ContentComparison(minute(33), original, "0" * 32, files, differing_file, is_by_owner=False)
        assert fleet.parts.store.comparisons.add(history.key._replace(directory=str(archive)), copy, found)

    if not is_compared_late:
        record_comparison()
    shutil.rmtree(fleet.work_dir / "ck")
    make_directory(fleet.work_dir / "ck")
    fleet.run(35, job)
    fleet.run(41, replace(job, state=JobState.FAILED, ends_at=minute(40)))
    fleet.run(43)
    if is_compared_late:
        record_comparison()
    [line] = fleet.parts.store.lost_work.list_lines(read(fleet).key)
    assert line.loss.saved_at == minute(saved_at)
    assert line.loss.lost == minute(40) - minute(saved_at)
