"""Inputs on which a reader once failed otherwise than by saying what is wrong: tests/fuzz/run.py found them."""

from pathlib import Path

import pytest

from checkpoints.recognising import recognise
from ckptd.core.model import Level

FINDINGS = sorted(path for path in (Path(__file__).parents[2] / "data" / "fuzz").iterdir() if path.is_dir())


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: path.name)
def test_a_reader_says_what_is_wrong_and_does_not_fail(finding, level):
    found = recognise(finding, level)
    assert found
    assert not [one.reason for one in found.values() if "its reader failed" in (one.reason or "")]
