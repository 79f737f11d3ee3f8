"""Every format's promises, over small real files: tests/data/formats/README.md says how to add some."""

import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from checkpoints.recognising import recognise
from ckptd.checkpoints.formats import FORMATS
from ckptd.core.model import CheckpointState, Level, Role

DATA = Path(__file__).parents[1] / "data" / "formats"
NAMES = sorted(path.parent.name for path in DATA.glob("*/truth.json"))
TRUTH = [
    pytest.param(name, entry, id=f"{name}/{entry['path']}")
    for name in NAMES
    for entry in json.loads((DATA / name / "truth.json").read_text())
]
WHOLE_FILES = [param for param in TRUTH if param.values[1]["full"] == "complete" and (DATA / param.id).is_file()]


@pytest.fixture(scope="module", params=[Level.STRUCTURE, Level.FULL])
def level(request):
    return request.param


@pytest.fixture(scope="module")
def found(level):
    return {name: recognise(DATA / name, level) for name in NAMES}


@pytest.mark.parametrize(("name", "truth"), TRUTH)
def test_a_checkpoint_is_what_its_framework_made_it(name, truth, found, level):
    checkpoint = found[name][truth["path"]]
    assert (checkpoint.state, checkpoint.format) == (truth[level.value], truth["format"]), checkpoint.reason
    assert (checkpoint.epoch, checkpoint.step) == (truth["epoch"], truth["step"])
    assert checkpoint.is_best == truth.get("is_best")
    assert list(checkpoint.unsafe) == truth.get("unsafe", [])
    assert truth.get("reason", "") in (checkpoint.reason or "")
    assert checkpoint.reason or checkpoint.state is CheckpointState.COMPLETE


@pytest.mark.parametrize(("name", "truth"), TRUTH)
def test_a_checkpoint_says_what_it_can_be_used_for(name, truth, found):
    checkpoint = found[name][truth["path"]]
    said = (checkpoint.role, checkpoint.is_result)
    assert said == (truth["role"], truth.get("is_result", False)), checkpoint.role_evidence
    assert checkpoint.role_evidence or checkpoint.role is Role.DATA
    assert not checkpoint.is_result or checkpoint.role is Role.STATE


@pytest.mark.parametrize("name", NAMES)
def test_nothing_else_is_called_a_checkpoint(name, found):
    truth = json.loads((DATA / name / "truth.json").read_text())
    assert sorted(found[name]) == sorted(entry["path"] for entry in truth)


@pytest.mark.parametrize(("name", "truth"), WHOLE_FILES)
def test_a_file_that_lost_its_end_is_never_complete(name, truth, tmp_path):
    if truth.get("cut") == "harmless":
        return
    whole = (DATA / name / truth["path"]).read_bytes()
    file = tmp_path / Path(truth["path"]).name
    for size in {0, 1, 16, len(whole) // 3, len(whole) // 2, len(whole) - 512, len(whole) - 1}:
        file.write_bytes(whole[: max(size, 0)])
        assert all(one.state is not CheckpointState.COMPLETE for one in recognise(tmp_path).values()), size


@pytest.mark.parametrize("truth", [param.values[1] for param in WHOLE_FILES], ids=[param.id for param in WHOLE_FILES])
@pytest.mark.parametrize("content", [bytes(1 << 16), b"Traceback (most recent call last):\n  ...\n" * 99])
def test_zeros_or_text_under_the_right_name_are_never_complete(truth, content, tmp_path):
    (tmp_path / Path(truth["path"]).name).write_bytes(content)
    assert all(one.state is not CheckpointState.COMPLETE for one in recognise(tmp_path).values())


@pytest.mark.parametrize(("name", "truth"), WHOLE_FILES)
def test_half_a_file_that_just_changed_is_being_written(name, truth, tmp_path):
    whole = (DATA / name / truth["path"]).read_bytes()
    (tmp_path / Path(truth["path"]).name).write_bytes(whole[: len(whole) // 2])
    for checkpoint in recognise(tmp_path, after=timedelta(0)).values():
        assert checkpoint.state in {CheckpointState.WRITING, CheckpointState.UNKNOWN}


@pytest.mark.parametrize("name", NAMES)
def test_names_in_any_bytes_are_recognised(name, level, tmp_path):
    root = os.fsencode(tmp_path) + b"/run\xff \n\x1b[31m"
    shutil.copytree(os.fsencode(DATA / name), root)
    truth = json.loads((DATA / name / "truth.json").read_text())
    states = {path: checkpoint.state for path, checkpoint in recognise(os.fsdecode(root), level).items()}
    assert states == {entry["path"]: entry[level.value] for entry in truth}


@pytest.mark.parametrize("name", NAMES)
def test_no_fifo_is_opened(name, tmp_path):
    """Opening one for reading would wait for a writer for ever."""
    for entry in json.loads((DATA / name / "truth.json").read_text()):
        path = tmp_path / entry["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.mkfifo(path)
    assert recognise(tmp_path, Level.FULL) == {}


def test_nothing_unpickles_imports_or_starts_anything():
    """An audit hook cannot be removed, so it lives in a process of its own."""
    program = Path(__file__).with_name("watch_recognising.py")
    outcome = subprocess.run([sys.executable, program, DATA], capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stdout) == (0, "nothing happened\n"), outcome.stdout + outcome.stderr


@pytest.mark.parametrize("format_name", sorted(set(FORMATS) - {"generic"}))
def test_every_format_has_real_files(format_name):
    assert any(param.values[1]["format"] == format_name for param in TRUTH)
