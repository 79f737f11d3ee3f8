"""Checkpoints that are alike are sent as the columns of a table, and arrive as they were."""

import json
from dataclasses import fields, replace
from datetime import timedelta

import pytest

from ckptd.core.model import Checkpoint, Grouping, checkpoint_tables
from ckptd.core.model.checkpoint_json import encode_checkpoint
from ckptd.core.model.checkpoint_tables import MAX_ROWS, decode_table, encode_tables
from core.histories import saved
from core.table_rows import as_row

COUNT = 30
ENTRIES, ANSWER_BYTES = 200_000, 128 << 20  # the most that a scan reads by default, and that an answer may have
LIKE_ROWS = [saved(minute, name=f"step_{minute}.pt", step=minute).checkpoint for minute in range(COUNT)]
DIRECTORY = str(LIKE_ROWS[0].path.parent)
ROWS = [as_row(each) for each in LIKE_ROWS]
FIRST = ROWS[0]
SECOND = timedelta(seconds=1)


def encode(found):
    """Return tables as they arrive, and the others."""
    return [
        json.loads(json.dumps(each)) if isinstance(each, list) else each for each in encode_tables(found, DIRECTORY)
    ]


def arrive(found):
    """Return the checkpoints as they arrive, and how many of them came in tables."""
    arrived, row_count = [], 0
    for each in encode(found):
        rows = decode_table(each, DIRECTORY) if isinstance(each, list) else [each]
        row_count += len(rows) if isinstance(each, list) else 0
        arrived += rows
    return arrived, row_count


def test_what_is_alike_is_one_table_and_arrives_in_order():
    assert arrive(ROWS) == (ROWS, COUNT)
    assert len(encode(ROWS)) == 1


def test_the_fields_of_rows_keep_their_values_and_types():
    grouping = Grouping(series="step_#.pt", progress=(3,), evidence="the word", has_progress_word=True, doubt="why")
    varied = [
        replace(FIRST, reason="why", is_best=True, is_newest=True, is_listed=False, is_result=True, role_evidence="x"),
        replace(FIRST, epoch=1.0, content_epoch=1, name_epoch=True, goal_epoch=2.5, goal_step=9, content_step=7),
        replace(FIRST, epoch=1, content_epoch=1.0, continued_count=2, continued_from_step=5, computation="a b"),
        replace(FIRST, grouping=grouping),
    ]
    found = [replace(each, epoch=each.epoch) for each in varied * 10]
    arrived, row_count = arrive(found)
    assert (arrived, row_count) == (found, len(found))
    kinds = [[type(each.epoch), type(each.content_epoch), type(each.goal_epoch)] for each in arrived]
    assert kinds == [[type(each.epoch), type(each.content_epoch), type(each.goal_epoch)] for each in found]


def test_every_field_is_in_a_column_or_makes_it_no_row():
    derived = {"path", "files", "identities", "owner_uids", "size_bytes", "modified_at"}
    excluded = {"metrics", "unsafe", "parts"}
    assert {*checkpoint_tables._FACTS, "grouping"} | derived | excluded == {each.name for each in fields(Checkpoint)}
    assert {*checkpoint_tables._GROUPING} == {each.name for each in fields(Grouping)}


def test_equal_numbers_of_two_types_are_not_sent_as_one():
    found = [replace(each, epoch=[1, 1.0][at % 2]) for at, each in enumerate(ROWS)]
    assert [repr(each.epoch) for each in arrive(found)[0]] == ["1", "1.0"] * (COUNT // 2)


@pytest.mark.parametrize(
    "other",
    [
        replace(FIRST, metrics={"loss": 0.5}),
        replace(FIRST, unsafe=("os.system",)),
        replace(FIRST, owner_uids=frozenset((1, 2))),
        replace(FIRST, owner_uids=frozenset()),
        replace(FIRST, files=("other.pt",)),
        replace(FIRST, files=(*FIRST.files, "b"), identities=FIRST.identities * 2),
        replace(FIRST, size_bytes=FIRST.size_bytes + 1),
        replace(FIRST, modified_at=FIRST.modified_at + SECOND),
        replace(FIRST, parts=(FIRST,)),
        7,
    ],
)
def test_what_is_no_row_stays_as_it_is_between_tables(other):
    found = encode([*ROWS, other, *ROWS])
    assert [isinstance(each, list) for each in found] == [True, False, True]
    assert found[1] is other
    assert [*decode_table(found[0], DIRECTORY), *decode_table(found[2], DIRECTORY)] == [*ROWS, *ROWS]


def test_few_are_no_table_and_many_are_several():
    assert encode(ROWS[:5]) == ROWS[:5]
    many = [replace(FIRST, path=FIRST.path.with_name(f"{at}"), files=(f"{at}",)) for at in range(2 * MAX_ROWS + 3)]
    assert [len(each[0]) if isinstance(each, list) else each.path.name for each in encode(many)] == [
        MAX_ROWS,
        MAX_ROWS,
        *(f"{2 * MAX_ROWS + at}" for at in range(3)),
    ]


def test_an_answer_about_as_many_checkpoints_as_a_scan_reads_entries_fits():
    """Also where nobody can tell which files belong together, and each says so."""
    grouping = Grouping(series="step_#.safetensors", progress=(FIRST.step,), doubt="it is unclear whether " + "x" * 400)
    rows = [replace(each, grouping=grouping) for each in ROWS]
    size = len(json.dumps([each if isinstance(each, list) else encode_checkpoint(each) for each in encode(rows)]))
    assert size / COUNT * ENTRIES < ANSWER_BYTES


def test_a_long_text_is_sent_for_each_row():
    """A child that sends it once must not make its parent record it for each of 100,000 checkpoints."""
    for length, times in ((2000, COUNT), (50, 1)):
        found = [replace(each, reason="x" * length) for each in ROWS]
        [table] = encode(found)
        assert json.dumps(table).count("x" * length) == times
        assert decode_table(table, DIRECTORY) == found


def test_many_texts_that_are_long_together_are_not_all_sent_once():
    grouping = Grouping(series="s" * 200, evidence="e" * 200, doubt="d" * 200)
    found = [replace(each, reason="r" * 200, computation="c" * 200, grouping=grouping) for each in ROWS]
    [table] = encode(found)
    assert sum(len(str(each)) for each in table if not isinstance(each, list)) <= 500
    assert decode_table(table, DIRECTORY) == found


@pytest.mark.parametrize(("column", "value"), [(13, "x" * 300), (-1, "x" * 300), (19, 10**300), (-5, "9" * 300)])
def test_what_rows_share_is_not_long_together(column, value):
    """A table of 15 KB would be 8 MB of rows."""
    [table] = encode(ROWS)
    table[column] = value
    assert len(decode_table(table, DIRECTORY)) == COUNT
    table[14] = "x" * 300
    with pytest.raises(ValueError, match="long"):
        decode_table(table, DIRECTORY)


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "..", "a/..", "/etc/x", "a//b", "./a", "a/", "a/./b", ".", "", 5, None, ["x"]]
)
def test_a_row_is_below_its_directory(name):
    [table] = encode(ROWS)
    table[0][1] = name
    with pytest.raises(ValueError, match="is not below"):
        decode_table(table, DIRECTORY)


@pytest.mark.parametrize("name", ["...", "..a", "a../b", "a b", "step\udcff.pt", "a\n"])
def test_a_strange_name_still_is_one_below_the_directory(name):
    [table] = encode(ROWS)
    table[0][1] = name
    found = decode_table(table, DIRECTORY)[1]
    assert str(found.path) == f"{DIRECTORY}/{name}"
    assert isinstance(found, Checkpoint)


LONG = "x" * 2000


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (0, "a"), (0, []), (0, ["a"]), (0, ["a"] * (MAX_ROWS + 1)), (0, None), (0, {"a": 1}),
        (1, "x"), (1, [1]), (1, ["x"] * COUNT), (1, [None] * COUNT), (4, float("inf")), (6, [[]] * COUNT),
        (8, "fine"), (9, None), (10, ["state"]), (11, LONG), (13, LONG), (13, {"a": LONG}), (15, "x"), (15, {}),
        (-1, LONG), (-5, 3), (-5, [3] * COUNT), (-5, ["x"] * COUNT),
    ],
)  # fmt: skip
def test_a_malformed_table_is_refused(column, value):
    [table] = encode(ROWS)
    table[column] = value
    with pytest.raises((KeyError, TypeError, ValueError, OverflowError)):
        decode_table(table, DIRECTORY)


@pytest.mark.parametrize("cut", [slice(0), slice(1), slice(-1), slice(5, None)])
def test_a_table_has_all_columns(cut):
    [table] = encode(ROWS)
    with pytest.raises((TypeError, ValueError)):
        decode_table(table[cut], DIRECTORY)
    with pytest.raises(ValueError, match="zip"):
        decode_table([*table, 1], DIRECTORY)
