"""Every file without which a framework would not restore is missed when it is gone, and blamed when it is broken."""

import shutil

import pytest

from checkpoints.formats.real_files import DATA, FOUND_IN_STRUCTURE, copy_real, lose_second_half
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level

NEEDED = {
    "accelerate/run_accelerate/checkpoints/checkpoint_4": [
        "model.safetensors",
        "optimizer.bin",
        "random_states_0.pkl",
    ],
    "deepspeed/run_zero1_tags/epoch_2": [
        "mp_rank_00_model_states.pt",
        "zero_pp_rank_0_mp_rank_00_optim_states.pt",
        "zero_pp_rank_1_mp_rank_00_optim_states.pt",
    ],
    "deepspeed/run_zero3_fp32/global_step10": [
        "zero_pp_rank_0_mp_rank_00_model_states.pt",
        "zero_pp_rank_1_mp_rank_00_model_states.pt",
        "zero_pp_rank_1_mp_rank_00_optim_states.pt",
    ],
    "huggingface_shards/run_best/sharded_model": [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ],
    "huggingface_trainer/run_best/checkpoint-60": [
        "model.safetensors",
        "optimizer.pt",
        "scheduler.pt",
        "rng_state.pth",
        "trainer_state.json",
    ],
    "megatron/run_classic_tp2/iter_0000020": [
        "mp_rank_00/model_optim_rng.pt",
        "mp_rank_01/model_optim_rng.pt",
        "mp_rank_01/distrib_optim.pt",
    ],
    "megatron/run_mcore_torch_dist/iter_0000020": [
        "common.pt",
        "metadata.json",
        ".metadata",
        "__0_0.distcp",
        "__1_1.distcp",
    ],
    "torch_dcp/run_single/step_8": [".metadata", "__0_0.distcp"],
}
CASES = [(checkpoint, name) for checkpoint, names in NEEDED.items() for name in names]


@pytest.mark.parametrize("damage", FOUND_IN_STRUCTURE, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize(("checkpoint", "name"), CASES)
def test_a_needed_part_that_is_broken_or_gone_is_named(checkpoint, name, damage, tmp_path):
    copy = copy_real(checkpoint, tmp_path)
    damage(copy / name)
    found = recognise(tmp_path)[copy.name]
    assert found.state is CheckpointState.DAMAGED
    stem = name.split("-of-")[0].partition(".")[0] if "." not in name[:1] else name
    assert stem in found.reason


def _first_storage(data):
    """Return the offset of the first storage of the first torch archive in a file: its header ends with padding."""
    at = data.find(b"/data/0FB") + len(b"/data/0")
    return at + 4 + int.from_bytes(data[at + 2 : at + 4], "little")


HOLD_TENSORS = [
    (checkpoint, name)
    for checkpoint, name in CASES
    if "zero3" not in checkpoint and b"/data/0FB" in (DATA / checkpoint / name).read_bytes()
]  # with ZeRO-3 the first storages are empty


@pytest.mark.parametrize(("checkpoint", "name"), HOLD_TENSORS)
def test_a_flipped_byte_of_data_is_found_once_every_byte_is_read(checkpoint, name, tmp_path):
    copy = copy_real(checkpoint, tmp_path)
    whole = bytearray((copy / name).read_bytes())
    whole[_first_storage(whole) + 2] ^= 0x01
    (copy / name).write_bytes(whole)
    assert recognise(tmp_path)[copy.name].state is CheckpointState.COMPLETE
    found = recognise(tmp_path, Level.FULL)[copy.name]
    assert found.state is CheckpointState.DAMAGED
    assert name in found.reason
    assert "CRC-32" in found.reason


@pytest.mark.parametrize("checkpoint", NEEDED)
def test_a_directory_that_is_a_link_or_lies_deeper_changes_nothing(checkpoint, tmp_path):
    copy = copy_real(checkpoint, tmp_path)
    deeper = tmp_path / "a" / "b"
    deeper.mkdir(parents=True)
    shutil.move(copy, deeper)
    (tmp_path / "link").symlink_to(deeper)
    assert [str(path) for path in recognise(tmp_path)] == [f"a/b/{copy.name}"]


def test_second_half_of_zeros_in_a_file_of_ranks_is_damage(tmp_path):
    copy = copy_real("torch_dcp/run_single/step_8", tmp_path)
    lose_second_half(copy / "__0_0.distcp")
    assert recognise(tmp_path)[copy.name].state is CheckpointState.DAMAGED


def test_the_test_data_is_there():
    assert all((DATA / checkpoint / name).is_file() for checkpoint, name in CASES)
