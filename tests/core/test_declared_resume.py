import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.model import DeclaredResume, JobKey
from ckptd.core.runs.declared_resume import (
    LONGEST_PATH,
    MAX_DECLARED,
    MAX_LINES,
    decode_resume,
    encode_resume,
    find_of_attempt,
    format_line,
    parse_lines,
    select_of_jobs,
)
from core.histories import at, attempt

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


RUN = "/run"
FIRST = attempt(0, 10, job_id=4711)
SECOND = attempt(11, job_id=4711, restart_count=1)


def of(declared, found=SECOND, attempts=(FIRST, SECOND)):
    return find_of_attempt(declared, found, attempts, RUN)


def say(path, minute=None, **changes):
    return DeclaredResume(path=path, said_at=None if minute is None else at(minute), **changes)


def in_cluster(found, cluster):
    return replace(found, job=JobKey(cluster, found.job.job_id, found.job.first_seen_at))


def test_the_last_word_of_an_attempt_counts():
    named = {"job_id": 4711, "restart_count": 1}
    earlier, said = say("/a", **named), say("/b", 12, cluster="c", **named)
    other = say("/c", 12, cluster="other", **named)
    declared = (earlier, said, other, say("/bare"))
    assert of(declared, in_cluster(SECOND, "c")) == said
    assert of(declared, in_cluster(SECOND, "other")) == other
    assert of(declared, in_cluster(SECOND, "third")) == earlier
    assert of(declared, in_cluster(FIRST, "c")) is None


def test_a_line_of_a_job_that_had_the_same_id_long_before_counts_for_none():
    assert of([say("/run/old.pt", -60, job_id=4711, restart_count=1)]) is None


def test_a_line_without_a_restart_count_is_that_of_the_attempt_under_way():
    said = say("/elsewhere/epoch_3.pt", 12, job_id=4711)
    assert of([said]) == said
    assert of([said], FIRST) is None
    assert of([replace(said, said_at=None)]) is None


def test_a_bare_path_in_the_directory_is_that_of_the_only_attempt_under_way():
    said = say("/run/epoch_3.pt", 12)
    assert of([said]) == said
    assert of([said], FIRST) is None
    assert of([say("/other-run/epoch_3.pt", 12)]) is None
    other = attempt(11.5, job_id=2)
    assert of([said], attempts=(FIRST, SECOND, other)) is None


def test_of_each_execution_the_last_line_is_told_and_of_other_jobs_none():
    lines = [say(f"/{n}", n, job_id=n % 3, restart_count=0) for n in range(9)]
    assert [each.path for each in select_of_jobs(lines, [1, 2])] == ["/7", "/8"]
    bare = [say("/a"), say("/b", 1)]
    assert select_of_jobs(bare, [1]) == (bare[1],)
    many = [say("/a", 1, job_id=1, restart_count=n) for n in range(2 * MAX_DECLARED)]
    assert select_of_jobs(many, [1]) == tuple(many[-MAX_DECLARED:])


def test_json_gives_a_declaration_back():
    assert decode_resume(encode_resume(SAID)) == SAID
    assert decode_resume(["/a"]) is None
