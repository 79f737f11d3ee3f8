"""What users declare, and which of their names for the directory led nowhere."""

from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from ckptd.core.declared import LONGEST_PATH, MAX_MISREAD, list_unmet, read_wishes, select_wishes
from ckptd.core.model import RunKey, Unknown, Wishes
from core.histories import RUN, history, job, look

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
        wishes=Wishes(directory="c"),
    )
    assert [each.path for each in list_unmet(given)] == unmet


@pytest.mark.parametrize("name", [RUN.directory, "run", "./run/", "../alice/run"])
def test_a_name_for_the_directory_that_was_found_another_way_is_met(name):
    named = job(comment=f"ckpt={name}", work_dir=PurePosixPath("/scratch/alice"))
    assert list_unmet(history(located_by="discovery", jobs=[named])) == []


def test_a_job_that_says_it_does_not_checkpoint_names_nothing():
    given = history(key=UNLOCATED, located_by=None, jobs=[job(comment="ckpt=none")], wishes=Wishes(directory="c"))
    assert list_unmet(given) == []


def test_nothing_is_said_where_the_look_could_not_tell():
    trouble = Unknown(what="search", reason="a is not the job's: its user may not write there")
    given = history(key=UNLOCATED, located_by=None, jobs=[job(**SAYS)])
    assert list_unmet(given)
    assert list_unmet(replace(given, scan=trouble)) == []
    assert list_unmet(replace(given, scan=look(problems=(trouble,)))) == []


@pytest.mark.parametrize("value", [7, ["a"], {"b": 1}, None, True])
def test_a_directory_that_is_no_text_is_no_wish(value):
    assert replace(read_wishes({"directory": value}), misread=()) == Wishes()


def test_a_name_is_no_longer_than_a_path_may_be():
    assert len(read_wishes({"directory": "x" * 100_000}).directory) == LONGEST_PATH
    given = history(key=UNLOCATED, located_by=None, jobs=[job(comment="ckpt=" + "x" * 100_000)])
    assert [len(each.path) for each in list_unmet(given)] == [LONGEST_PATH]


MISREAD = {
    "nothing": ({}, []),
    "all is well": (
        {"directory": "c", "checkpoints": False, "signal": "B:USR1", "epochs": 9, "mute": ["no-room"], "keep": "x"},
        [],
    ),
    "resubmit": ({"resubmit": "yes"}, ["resubmit is true or false, not 'yes'"]),
    "no maximum": ({"resubmit": True}, ["resubmit counts for nothing without max_resubmits"]),
    "a maximum of none": ({"resubmit": True, "max_resubmits": 0}, ["max_resubmits is a number above 0, not 0"]),
    "signal": (
        {"signal": "KILL"},
        ["signal is USR1, USR2, TERM, HUP or INT, behind B: for the batch shell, not 'KILL'"],
    ),
    "steps": ({"steps": "9"}, ["steps is a number above 0, not '9'"]),
    "mute": ({"mute": "no-room"}, ["""mute is a list of rules such as ["too-sparse"], not 'no-room'"""]),
    "a word of nobody": ({"max_resubmit": 3}, ["there is no 'max_resubmit'; did you mean max_resubmits?"]),
    "hostile": ({"\x1b[31m\n" + "x" * 10_000: 1}, [rf"there is no '\x1b[31m\n{'x' * 46}..."]),
    "unreadable": (
        {"problem": "Invalid value (at line 1, column 12)"},
        ["cannot be read, so what it said before counts: Invalid value (at line 1, column 12)"],
    ),
}


@pytest.mark.parametrize(("table", "said"), MISREAD.values(), ids=MISREAD)
def test_what_counts_for_nothing_is_told(table, said):
    assert list(read_wishes(select_wishes(table, {}, {"keep"})).misread) == said


def test_a_file_that_cannot_be_read_counts_as_it_was_until_it_can():
    known = select_wishes({"resubmit": True, "max_resubmits": 3}, {}, ())
    broken = select_wishes({"problem": "Invalid value"}, known, ())
    assert replace(read_wishes(broken), misread=()) == read_wishes(known)
    assert read_wishes(select_wishes({"resubmit": True}, broken, ())).max_resubmits == 0
    assert "problem" not in select_wishes({"resubmit": True}, broken, ())


def test_of_thousands_of_words_a_few_are_told():
    assert len(read_wishes(select_wishes({f"word{n}": n for n in range(5000)}, {}, ())).misread) == MAX_MISREAD
