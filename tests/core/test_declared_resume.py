import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.runs.declared_resume import (
    LONGEST_PATH,
    MAX_LINES,
    DeclaredResume,
    find_of_attempt,
    format_line,
    parse_lines,
)

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SAID = DeclaredResume(
    path="/run/last.pt", real_path="/run/epoch_3.pt", cluster="c", job_id=4711, restart_count=1, said_at=NOW
)


@given(st.text(st.characters(exclude_characters="\0"), max_size=200).map(lambda text: f"/{text}"))
def test_whatever_a_path_is_a_line_gives_it_back(path):
    said = DeclaredResume(path=path, job_id=1, restart_count=0, said_at=NOW)
    line = format_line(said)
    assert line.isascii()
    assert line.count("\n") == 1
    assert parse_lines(line) == (said,)


def test_a_path_that_is_no_utf8_is_given_back():
    said = DeclaredResume(path="/run/\udcff.pt", job_id=1)
    assert parse_lines(format_line(said)) == (said,)


def test_a_script_without_ckptd_may_append_a_bare_path():
    assert parse_lines("/run/epoch_3.pt\n\n  /run/epoch_4.pt \n") == (
        DeclaredResume(path="/run/epoch_3.pt"),
        DeclaredResume(path="/run/epoch_4.pt"),
    )


@pytest.mark.parametrize(
    "line",
    [
        "epoch_3.pt",
        "{",
        "[]",
        "{}",
        '{"path": 1}',
        '{"path": "relative"}',
        '{"path": "/a\\u0000b"}',
        json.dumps({"path": "/" + "a" * LONGEST_PATH}),
        "/" + "a" * LONGEST_PATH,
        '{"path":' * 100_000,
        '{"a": ' + "[" * 20_000,
        "/" + "b" * 1_000_000,
        "\udcff\udcfe",
    ],
)
def test_a_malformed_line_is_left_out_and_those_around_it_stay(line):
    assert parse_lines(f"{format_line(SAID)}{line}\n{format_line(SAID)}") == (SAID,)


@pytest.mark.parametrize("value", [-1, 2**63, 1.5, True, "7", None, [], 10**400])
def test_a_number_that_is_none_counts_as_not_said(value):
    (said,) = parse_lines(json.dumps({"path": "/a", "job": value, "restart": value}))
    assert (said.job_id, said.restart_count) == (None, None)


@pytest.mark.parametrize("value", ["", "yesterday", "2026-11-22T12:00:00", "0001-01-01T00:00:00+23:59", 5])
def test_an_instant_that_is_none_counts_as_not_said(value):
    (said,) = parse_lines(json.dumps({"path": "/a", "time": value, "cluster": ["c"], "real_path": "b"}))
    assert (said.said_at, said.cluster, said.real_path) == (None, None, None)


def test_the_number_of_lines_is_bounded_and_the_newest_count():
    lines = "".join(format_line(DeclaredResume(path="/a", job_id=number)) for number in range(MAX_LINES + 5))
    found = parse_lines(lines)
    assert (len(found), found[-1].job_id) == (MAX_LINES, MAX_LINES + 4)


def test_the_last_word_of_an_attempt_counts():
    earlier = DeclaredResume(path="/a", job_id=4711, restart_count=1)
    other = DeclaredResume(path="/b", cluster="other", job_id=4711, restart_count=1)
    declared = (earlier, SAID, other, DeclaredResume(path="/bare"))
    assert find_of_attempt(declared, "c", 4711, 1) == SAID
    assert find_of_attempt(declared, "other", 4711, 1) == other
    assert find_of_attempt(declared, "third", 4711, 1) == earlier
    assert find_of_attempt(declared, "c", 4711, 0) is None
