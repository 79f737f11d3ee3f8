"""The newest file of no known format in a directory: which one it is, and how many are opened to find it."""

import os
from datetime import UTC, datetime, timedelta

from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.checkpoints.scanning.unrecognised_files import MAX_OPENED_ALIKE
from steps.unknown_layouts import FORTRAN, LOG

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def write(root, name, minutes, content=FORTRAN):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, ((NOW + timedelta(minutes=minutes)).timestamp(),) * 2)


def find(root):
    found = inspect_tree(root, now=NOW).newest_unrecognised
    return found and (found.path, found.modified_at)


def test_it_is_the_newest_one(tmp_path):
    for number in range(1, 4):
        write(tmp_path, f"photos/x{number}00", number - 100)
    assert find(tmp_path) == ("photos/x300", NOW - timedelta(minutes=97))


def test_texts_of_many_ranks_that_are_newer_hide_no_file(tmp_path):
    for rank in range(200):
        write(tmp_path, f"out/rank.{rank}", -rank, LOG)
    write(tmp_path, "fort.20", -900)
    assert find(tmp_path) == ("fort.20", NOW - timedelta(minutes=900))


def test_units_of_fortran_are_each_looked_at(tmp_path):
    for unit in range(MAX_OPENED_ALIKE - 1):
        write(tmp_path, f"fort.{unit}", -unit, LOG)
    write(tmp_path, "fort.20", -900)
    assert find(tmp_path) == ("fort.20", NOW - timedelta(minutes=900))


def test_a_date_in_the_future_counts_as_now(tmp_path):
    write(tmp_path, "fort.20", 9000)
    assert find(tmp_path) == ("fort.20", NOW)


def test_beside_a_checkpoint_there_is_none(tmp_path):
    write(tmp_path, "fort.20", -10)
    write(tmp_path, "restart.0001", -10)
    assert find(tmp_path) is None


def test_a_link_to_such_a_file_is_not_followed(tmp_path):
    write(tmp_path, "data/fort.20", -10)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/fort.20").symlink_to("../data/fort.20")
    assert find(tmp_path / "run") is None
