"""What users declare, and which of their names for the directory led nowhere."""

from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from ckptd.core.discovery.declared import LONGEST_PATH, list_unmet
from ckptd.core.model import RunKey, Unknown, UserSettings
from core.histories import RUN, history, job, scan_at

UNLOCATED = RunKey("c1", 1000, "job:1@2026-03-01")
SAYS = {"comment": "ckpt=a", "admin_comment": "ckpt=b", "work_dir": PurePosixPath("/scratch/alice")}


@pytest.mark.parametrize(
    ("located_by", "unmet"),
    [
        (None, ["a", "b", "c"]),
        ("discovery", ["a", "b", "c"]),
        ("watch", ["a", "b", "c"]),
        ("user-file", ["a", "b"]),
        ("admin-comment", ["a"]),
        ("comment", []),
    ],
)
def test_a_name_is_unmet_unless_it_or_one_of_greater_trust_led_to_the_directory(located_by, unmet):
    given = history(
        key=RUN if located_by else UNLOCATED,
        located_by=located_by,
        jobs=[job(**SAYS), job(2, **SAYS)],
        user_settings=UserSettings(directory="c"),
    )
    assert [each.path for each in list_unmet(given)] == unmet


@pytest.mark.parametrize("name", [RUN.directory, "run", "./run/", "../alice/run"])
def test_a_name_for_the_directory_that_was_found_another_way_is_met(name):
    named = job(comment=f"ckpt={name}", work_dir=PurePosixPath("/scratch/alice"))
    assert list_unmet(history(located_by="discovery", jobs=[named])) == []


def test_a_job_that_says_it_does_not_checkpoint_names_nothing():
    given = history(
        key=UNLOCATED, located_by=None, jobs=[job(comment="ckpt=none")], user_settings=UserSettings(directory="c")
    )
    assert list_unmet(given) == []


def test_nothing_is_said_where_the_look_could_not_tell():
    trouble = Unknown(what="search", reason="a is not the job's: its user may not write there")
    given = history(key=UNLOCATED, located_by=None, jobs=[job(**SAYS)])
    assert list_unmet(given)
    assert list_unmet(replace(given, scan=trouble)) == []
    assert list_unmet(replace(given, scan=scan_at(problems=(trouble,)))) == []


def test_a_name_is_no_longer_than_a_path_may_be():
    given = history(key=UNLOCATED, located_by=None, jobs=[job(comment="ckpt=" + "x" * 100_000)])
    assert [len(each.path) for each in list_unmet(given)] == [LONGEST_PATH]
