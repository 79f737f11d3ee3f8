"""Checkpoints that people call just `checkpoint`: only their bytes tell what they are."""

import io
import pickle
import shutil
from pathlib import Path

import numpy as np

from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState

TORCH = Path(__file__).parents[2] / "data/formats/torch/run_epochs"
STATE = {"epoch": 3, "step": 60}


def test_a_pickle_without_a_suffix_is_told_by_its_first_bytes(tmp_path):
    (tmp_path / "checkpoint").write_bytes(pickle.dumps(STATE))
    (tmp_path / "checkpoint.backup").write_bytes(pickle.dumps({"epoch": 2, "step": 40}))
    found = recognise(tmp_path)
    assert (found["checkpoint"].format, found["checkpoint"].epoch) == ("pickle", 3)
    assert (found["checkpoint.backup"].format, found["checkpoint.backup"].epoch) == ("pickle", 2)


def test_torchs_zip_without_a_suffix_is_told_by_its_first_entry(tmp_path):
    source = min(TORCH.glob("*.pt*"))
    shutil.copy(source, tmp_path / "checkpoint")
    assert recognise(tmp_path)["checkpoint"].format == "torch"
    assert recognise(tmp_path)["checkpoint"].epoch == recognise(TORCH)[source.name].epoch


def test_damaged_first_bytes_are_told_by_the_others_of_the_series(tmp_path):
    source = min(TORCH.glob("*.pt*"))
    for number in (1, 2, 3):
        shutil.copy(source, tmp_path / f"checkpoint-{number}")
    data = bytearray(source.read_bytes())
    data[0] ^= 0xFF
    (tmp_path / "checkpoint-3").write_bytes(data)
    found = recognise(tmp_path)
    assert (found["checkpoint-2"].format, found["checkpoint-2"].state) == ("torch", CheckpointState.COMPLETE)
    assert (found["checkpoint-3"].format, found["checkpoint-3"].state) == ("generic", CheckpointState.DAMAGED)
    assert "not those of torch" in found["checkpoint-3"].reason
    (tmp_path / "checkpoint-2").unlink()
    assert recognise(tmp_path)["checkpoint-3"].state is CheckpointState.COMPLETE  # one other is no series


def test_another_zip_or_text_of_that_name_is_not_taken_for_one(tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, weights=np.zeros(3))
    (tmp_path / "checkpoint").write_bytes(buffer.getvalue())
    (tmp_path / "checkpoint-notes").write_text("nothing yet")
    assert {found.format for found in recognise(tmp_path).values()} == {"generic"}
