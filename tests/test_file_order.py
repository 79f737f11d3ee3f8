"""The files that begin first are there, so that none is forgotten when it is renamed."""

import pytest

from support import file_order


@pytest.mark.parametrize("name", file_order.FIRST)
def test_a_file_that_begins_first_is_there_and_comes_before_all_others(name):
    path = file_order.TESTS / name
    assert path.is_file()
    assert file_order.get_rank(path) < file_order.get_rank(file_order.TESTS / "test_smoke.py")
