import shutil

import pytest

from checkpoints.formats.real_files import copy_real
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState

SHARDED = "deepspeed/run_zero1_tags/epoch_2"
ZERO_3 = "deepspeed/run_zero3_fp32/global_step10"


def test_the_marker_names_the_newest(tmp_path):
    copy_real(SHARDED, tmp_path)
    copy_real("deepspeed/run_zero1_tags/epoch_3", tmp_path)
    (tmp_path / "latest").write_text("epoch_2")
    found = recognise(tmp_path)
    assert {name: checkpoint.is_newest for name, checkpoint in found.items()} == {"epoch_2": True, "epoch_3": None}


@pytest.mark.parametrize(
    ("content", "note"), [(b"epoch_9\n", "latest names epoch_9, which is missing"), (b"", "latest names nothing")]
)
def test_a_marker_that_names_nothing_there_is_reported(content, note, tmp_path):
    copy_real(SHARDED, tmp_path)
    (tmp_path / "latest").write_bytes(content)
    found = recognise(tmp_path)["epoch_2"]
    assert (found.state, found.reason, found.is_newest) == (CheckpointState.COMPLETE, note, None)


def test_files_of_bf16_have_their_own_prefix(tmp_path):
    copy = copy_real(SHARDED, tmp_path)
    for rank in range(2):
        file = copy / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        file.rename(file.with_name(f"bf16_{file.name}"))
    assert recognise(tmp_path)["epoch_2"].state is CheckpointState.COMPLETE
    (copy / "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt").unlink()
    assert "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt is missing" in recognise(tmp_path)["epoch_2"].reason


@pytest.mark.parametrize("checkpoint", [SHARDED, ZERO_3])
@pytest.mark.parametrize(("rank", "model"), [(2, 0), (0, 1), (7, 3)])
def test_one_file_of_another_rank_means_that_others_are_missing(checkpoint, rank, model, tmp_path):
    copy = copy_real(checkpoint, tmp_path)
    source = copy / "zero_pp_rank_1_mp_rank_00_optim_states.pt"
    shutil.copy(source, copy / f"zero_pp_rank_{rank}_mp_rank_{model:02d}_optim_states.pt")
    (copy / "zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    found = recognise(tmp_path)[copy.name]
    assert found.state is CheckpointState.DAMAGED
    assert "is missing" in found.reason


def test_a_whole_pipeline_has_every_slice_of_every_layer(tmp_path):
    copy = copy_real(SHARDED, tmp_path)
    part = copy / "mp_rank_00_model_states.pt"
    for layer, model in [(0, 0), (0, 1), (7, 0), (7, 1)]:
        shutil.copy(part, copy / f"layer_{layer:02d}-model_{model:02d}-model_states.pt")
    assert recognise(tmp_path)["epoch_2"].state is CheckpointState.COMPLETE
    (copy / "layer_07-model_00-model_states.pt").unlink()
    assert "slice 0 of layer 07 is missing" in recognise(tmp_path)["epoch_2"].reason


def test_every_layer_has_every_expert(tmp_path):
    copy = copy_real(SHARDED, tmp_path)
    for layer, expert in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        file = copy / f"layer_{layer}_expert_{expert}_mp_rank_00_model_states.pt"
        shutil.copy(copy / "mp_rank_00_model_states.pt", file)
    assert recognise(tmp_path)["epoch_2"].state is CheckpointState.COMPLETE
    (copy / "layer_1_expert_1_mp_rank_00_model_states.pt").unlink()
    assert "expert 1 of layer" in recognise(tmp_path)["epoch_2"].reason


def test_a_universal_checkpoint_has_parameters_instead_of_shards(tmp_path):
    copy = copy_real(SHARDED, tmp_path)
    for name in ("0.weight", "0.bias"):
        (copy / "zero" / name).mkdir(parents=True)
        shutil.copy(copy / "mp_rank_00_model_states.pt", copy / "zero" / name / "fp32.pt")
    for file in copy.glob("zero_pp_rank_*"):
        file.unlink()
    (tmp_path / "latest_universal").write_text("epoch_2")
    found = recognise(tmp_path)["epoch_2"]
    assert (found.state, found.is_newest) == (CheckpointState.COMPLETE, True)
    (copy / "zero" / "0.bias" / "fp32.pt").rename(copy / "zero" / "0.bias" / "exp_avg.pt")
    assert "zero/0.bias/fp32.pt is missing" in recognise(tmp_path)["epoch_2"].reason
