"""What people read of a run whose checkpoint directory is not known."""

import pytest

from ckptd.core.model import RunKey, UserSettings
from ckptd.present import labels, models
from core.histories import at, history, job

UNLOCATED = RunKey("c1", 1000, "job:1@20260301T120000Z")


@pytest.mark.parametrize(
    ("jobs", "settings", "reason"),
    [
        (
            (job(),),
            UserSettings(),
            "no existing directory is named, and no search of the working directory has found checkpoints",
        ),
        ((job(comment="ckpt=none"),), UserSettings(), "the job's comment declares ckpt=none"),
        ((job(),), UserSettings(is_saving=False), ".ckptd.toml sets checkpoints = false"),
    ],
)
def test_the_document_says_why_a_directory_is_not_known(jobs, settings, reason):
    run = history(key=UNLOCATED, jobs=jobs, user_settings=settings, scan=None)
    assert models.run_view(run, (), at(60))["scan_problems"] == [reason]


def test_an_ended_run_without_a_directory_has_no_such_reason():
    assert models.run_view(history(key=UNLOCATED, jobs=(), scan=None), (), at(60))["scan_problems"] == []


@pytest.mark.parametrize(
    ("directory", "job_number", "job_name", "name"),
    [
        ("/scratch/alice/run", "4711", "train", "/scratch/alice/run"),
        (UNLOCATED.directory, None, "", "Job 1, directory unknown"),
        (UNLOCATED.directory, "1_3", "train", "Job 1_3 (train), directory unknown"),
    ],
)
def test_a_run_is_named_after_its_directory_or_its_job(directory, job_number, job_name, name):
    assert labels.name_run(directory, job_number, job_name) == name
