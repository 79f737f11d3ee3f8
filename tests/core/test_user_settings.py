"""What users ask for in `.ckptd.toml`, and what in it counts for nothing."""

from dataclasses import replace

import pytest

from ckptd.core.discovery.declared import LONGEST_PATH
from ckptd.core.model import EVERY_RULE, UserSettings
from ckptd.core.runs.user_settings import MAX_MISREAD, parse_user_settings, select_user_settings


@pytest.mark.parametrize("value", [7, ["a"], {"b": 1}, None, True])
def test_a_directory_that_is_no_text_is_no_wish(value):
    assert replace(parse_user_settings({"directory": value}), misread=()) == UserSettings()


def test_a_name_is_no_longer_than_a_path_may_be():
    assert len(parse_user_settings({"directory": "x" * 100_000}).directory) == LONGEST_PATH


NOT_ABOUT_MAIL = 'is not valid; use only mute in it: true, or a list of rules such as ["too-sparse"]'
MISREAD = {
    "nothing": ({}, []),
    "all is well": (
        {"directory": "c", "checkpoints": False, "signal": "B:USR1", "epochs": 9, "mute": ["no-room"], "keep": "x"},
        [],
    ),
    "resubmit": ({"resubmit": "yes"}, ["resubmit: 'yes' is not valid; use true or false"]),
    "no maximum": ({"resubmit": True}, ["resubmit has no effect without max_resubmits"]),
    "a maximum of none": (
        {"resubmit": True, "max_resubmits": 0},
        ["max_resubmits: 0 is not valid; use a number above 0"],
    ),
    "signal": (
        {"signal": "KILL"},
        ["signal: 'KILL' is not valid; use USR1, USR2, TERM, HUP or INT, with the prefix B: for the batch shell"],
    ),
    "resume_from": ({"resume_from": "run/epoch_3.pt"}, []),
    "resume_from twice": ({"resume_from": ["run/epoch_3.pt", "/x/best.pt"]}, []),
    "resume_from is a number": ({"resume_from": 3}, ["resume_from: 3 is not valid; use a path or a list of paths"]),
    "resume_from has one": (
        {"resume_from": ["a", 3]},
        ["resume_from: ['a', 3] is not valid; use a path or a list of paths"],
    ),
    "steps": ({"steps": "9"}, ["steps: '9' is not valid; use a number above 0"]),
    "mute": (
        {"mute": "no-room"},
        ["""mute: 'no-room' is not valid; use true, or a list of rules such as ["too-sparse"]"""],
    ),
    "what every mail advises": ({"mail": {"mute": ["at-risk"]}}, []),
    "mail is muted": ({"mail": {"mute": True}}, []),
    "a word in place of a list": (
        {"mail": {"mute": "at-risk"}},
        [f"mail: {{'mute': 'at-risk'}} {NOT_ABOUT_MAIL}"],
    ),
    "a misspelt mute": (
        {"mail": {"mutes": True}},
        [f"mail: {{'mutes': True}} {NOT_ABOUT_MAIL}"],
    ),
    "a word of nobody": ({"max_resubmit": 3}, ["unknown setting 'max_resubmit'; did you mean 'max_resubmits'?"]),
    "hostile": ({"\x1b[31m\n" + "x" * 10_000: 1}, [rf"unknown setting '\x1b[31m\n{'x' * 46}..."]),
    "unreadable": (
        {"problem": "Invalid value (at line 1, column 12)"},
        ["cannot be read: Invalid value (at line 1, column 12); its last readable content still applies"],
    ),
}


@pytest.mark.parametrize(("table", "said"), MISREAD.values(), ids=MISREAD)
def test_what_counts_for_nothing_is_told(table, said):
    assert list(parse_user_settings(select_user_settings(table, {}, {"keep"})).misread) == said


def test_a_file_that_cannot_be_read_counts_as_it_was_until_it_can():
    known = select_user_settings({"resubmit": True, "max_resubmits": 3}, {}, ())
    broken = select_user_settings({"problem": "Invalid value"}, known, ())
    assert replace(parse_user_settings(broken), misread=()) == parse_user_settings(known)
    assert parse_user_settings(select_user_settings({"resubmit": True}, broken, ())).max_resubmits == 0
    assert "problem" not in select_user_settings({"resubmit": True}, broken, ())


def test_of_thousands_of_words_a_few_are_told():
    assert (
        len(parse_user_settings(select_user_settings({f"word{n}": n for n in range(5000)}, {}, ())).misread)
        == MAX_MISREAD
    )


def test_true_mutes_every_rule_and_false_none():
    assert [parse_user_settings({"mute": mute}).muted for mute in (True, False)] == [{EVERY_RULE}, set()]
    assert parse_user_settings({"mute": True}).misread == ()
