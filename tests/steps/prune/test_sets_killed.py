"""A process that prunes is killed in the middle of checkpoints of 40 files; `tests/fuzz/kill_sets.py` does it often."""

import os

import pytest

from fuzz import kill_sets
from support import small_process

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
KILLS = 10


def test_a_checkpoint_of_40_files_is_whole_in_one_place_after_the_next_start_in_every_mode():
    wrong, torn = small_process.call(kill_sets.run, KILLS, 20261120)
    assert wrong == []
    assert torn >= KILLS // 3
