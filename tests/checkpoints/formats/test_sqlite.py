import sqlite3

import pytest

from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState

NAME = "study_checkpoint.db"


@pytest.fixture
def database(tmp_path):
    path = tmp_path / NAME
    connection = sqlite3.connect(path)
    connection.executescript("create table trial (value); pragma page_size;")
    connection.executemany("insert into trial values (?)", ((b"\1" * 900,) for _ in range(50)))
    connection.commit()
    connection.close()
    return path


def state_of(database):
    found = recognise(database.parent)[NAME]
    return found.state, found.reason or ""


def test_a_database_is_whole_when_its_pages_are(database):
    assert state_of(database) == (CheckpointState.COMPLETE, "")
    database.write_bytes(database.read_bytes()[:-4096])
    assert state_of(database)[0] is CheckpointState.DAMAGED


def test_the_size_that_old_programs_leave_in_the_header_is_not_compared(database):
    content = bytearray(database.read_bytes())
    content[28:32], content[92:96] = bytes(4), bytes(4)
    database.write_bytes(content)
    assert state_of(database) == (CheckpointState.COMPLETE, "")
    database.write_bytes(content[:-100])
    assert state_of(database)[0] is CheckpointState.DAMAGED


def test_space_that_was_allocated_ahead_behind_the_last_page_is_none_of_damage(database):
    database.write_bytes(database.read_bytes() + b"\1" * 4096)
    assert state_of(database) == (CheckpointState.COMPLETE, "")


def test_a_last_page_of_zeros_may_be_a_lost_write_unless_pages_are_free(database):
    content = bytearray(database.read_bytes())
    content[-4096:] = bytes(4096)
    database.write_bytes(content)
    assert state_of(database)[0] is CheckpointState.UNKNOWN
    content[36:40] = b"\0\0\0\1"
    database.write_bytes(content)
    assert state_of(database)[0] is CheckpointState.COMPLETE
