"""Checkpoints of diffusers' scripts: Accelerate's parts, and each model in a directory of its own."""

import pytest

from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Role
from support import checkpoint_bytes as made

ACCELERATE = {
    "optimizer.bin": made.torch_optimizer(),
    "scheduler.bin": made.torch_scheduler(1),
    "random_states_0.pkl": made.torch_rng(),
}
WHOLE = {"unet/config.json": b"{}", "unet/diffusion_pytorch_model.safetensors": made.safetensors()}
SHARDS = {
    f"transformer/diffusion_pytorch_model-0000{number}-of-00002.safetensors": made.safetensors(
        names=(f"layer.{number}.weight",)
    )
    for number in (1, 2)
}
INDEX = {
    "transformer/diffusion_pytorch_model.safetensors.index.json": made.safetensors_index(
        [name.partition("/")[2] for name in SHARDS], ("layer.1.weight", "layer.2.weight")
    )
}
ENCODER = {**WHOLE, "text_encoder/model.safetensors": made.safetensors()}


def examine(root, files):
    for name, data in {**ACCELERATE, **files}.items():
        path = root / "checkpoint-500" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return recognise(root)["checkpoint-500"]


@pytest.mark.parametrize("model", [WHOLE, {**SHARDS, **INDEX}, ENCODER], ids=["whole", "shards", "encoder"])
def test_models_in_directories_are_those_of_a_whole_state(tmp_path, model):
    found = examine(tmp_path, model)
    assert (found.state, found.role) == (CheckpointState.COMPLETE, Role.STATE), found.reason


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (WHOLE, "unet/diffusion_pytorch_model.safetensors"),
        ({**SHARDS, **INDEX}, "transformer/diffusion_pytorch_model-00002-of-00002.safetensors"),
        (ENCODER, "text_encoder/model.safetensors"),
    ],
)
@pytest.mark.parametrize("size_bytes", [0, 60])
def test_a_model_that_is_cut_off_is_damage(tmp_path, model, name, size_bytes):
    found = examine(tmp_path, {**model, name: model[name][:size_bytes]})
    assert found.state is CheckpointState.DAMAGED
    assert name in found.reason


def test_a_shard_that_is_missing_is_damage(tmp_path):
    name, *others = SHARDS
    found = examine(tmp_path, {**INDEX, **{other: SHARDS[other] for other in others}})
    assert found.state is CheckpointState.DAMAGED
    assert name in found.reason
