import pytest

from checkpoints.formats.real_files import copy_real
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Role

NAME = "gpt--val_loss=1.25-step=19-consumed_samples=160.0"


def test_weights_and_context_are_one_checkpoint(tmp_path):
    copy_real(f"nemo/{NAME}", tmp_path)
    found = recognise(tmp_path)
    assert list(found) == [NAME]
    assert f"{NAME}/context/io.json" in found[NAME].files
    assert (found[NAME].name_step, found[NAME].metrics) == (19, {"val_loss": 1.25})


def test_one_that_lost_a_shard_is_damaged_and_still_a_state(tmp_path):
    copy = copy_real(f"nemo/{NAME}", tmp_path)
    (copy / "weights" / "__1_0.distcp").unlink()
    found = recognise(tmp_path)[NAME]
    assert (found.state, found.role) == (CheckpointState.DAMAGED, Role.STATE)
    assert "weights/__1_0.distcp" in found.reason


@pytest.mark.parametrize("content", [b"", bytes(100), b"<html>403</html>", b'{"cut": '])
def test_damaged_settings_are_noted_because_a_restart_may_have_its_own(tmp_path, content):
    copy = copy_real(f"nemo/{NAME}", tmp_path)
    (copy / "context" / "io.json").write_bytes(content)
    found = recognise(tmp_path)[NAME]
    assert found.state is CheckpointState.COMPLETE
    assert found.reason.startswith("the weights are whole, but not the settings: context/io.json")


def test_directories_that_are_only_called_so_are_no_checkpoint_of_nemo(tmp_path):
    for name in ("weights", "context"):
        (tmp_path / "model" / name).mkdir(parents=True)
        (tmp_path / "model" / name / "notes.txt").write_text("nothing\n")
    assert recognise(tmp_path) == {}


def test_a_checkpoint_of_nemo_1_with_its_marker_was_not_finished(tmp_path):
    real = copy_real("lightning/hpc_killed/hpc_ckpt_1.ckpt", tmp_path)
    real.rename(tmp_path / "gpt--val_loss=1.2-epoch=3.ckpt")
    (tmp_path / "gpt--val_loss=1.2-epoch=3-unfinished").touch()
    (found,) = recognise(tmp_path).values()
    assert (found.state, found.format) == (CheckpointState.WRITING, "lightning")
