import json
import shutil

import pytest

from checkpoints.formats.real_files import copy_real
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState

TRAINER = "huggingface_trainer/run_best/checkpoint-60"
ACCELERATE = "accelerate/run_accelerate/checkpoints/checkpoint_4"
SHARDS = "huggingface_shards/run_best/sharded_model"


@pytest.fixture
def trainer(tmp_path):
    return copy_real(TRAINER, tmp_path)


def state_of(directory):
    found = recognise(directory.parent)[directory.name]
    return found.state, found.reason


def test_metrics_are_the_last_that_were_logged(trainer):
    metrics = recognise(trainer.parent)["checkpoint-60"].metrics
    assert {name: round(value, 4) for name, value in metrics.items()} == {"loss": 0.1332, "eval_loss": 0.3204}


def test_the_goal_is_that_of_the_trainers_state(trainer):
    found = recognise(trainer.parent)["checkpoint-60"]
    assert (found.step, found.goal_step, found.goal_epoch) == (60, 60, None)


def test_a_model_saved_alone_is_complete(trainer):
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (trainer / name).unlink()
    assert state_of(trainer) == (CheckpointState.COMPLETE, None)


def test_weights_may_be_of_an_adapter(trainer):
    (trainer / "model.safetensors").rename(trainer / "adapter_model.safetensors")
    assert state_of(trainer) == (CheckpointState.COMPLETE, None)


@pytest.mark.parametrize("ranks", [[0, 1, 2], [8, 9]])
def test_every_rank_has_its_random_state(trainer, ranks):
    for rank in ranks:
        shutil.copy(trainer / "rng_state.pth", trainer / f"rng_state_{rank}.pth")
    (trainer / "rng_state.pth").unlink()
    assert state_of(trainer) == (CheckpointState.COMPLETE, None)
    (trainer / f"rng_state_{ranks[-1]}.pth").rename(trainer / f"rng_state_{ranks[-1] + 1}.pth")
    assert f"rng_state_{ranks[-1]}.pth is missing" in state_of(trainer)[1]


def test_weights_may_be_shards(trainer, tmp_path):
    shards = copy_real(SHARDS, tmp_path)
    (trainer / "model.safetensors").unlink()
    for file in shards.glob("model*"):
        file.rename(trainer / file.name)
    shutil.rmtree(shards)
    assert state_of(trainer) == (CheckpointState.COMPLETE, None)
    (trainer / "model-00001-of-00002.safetensors").unlink()
    assert "model-00001-of-00002.safetensors is missing" in state_of(trainer)[1]


def test_weights_and_optimizer_may_be_of_fsdp(trainer):
    (trainer / "model.safetensors").unlink()
    (trainer / "optimizer.pt").unlink()
    for name in ("pytorch_model_fsdp_0", "optimizer_0"):
        copy_real("torch_dcp/run_single/step_8", trainer).rename(trainer / name)
    assert state_of(trainer) == (CheckpointState.COMPLETE, None)
    (trainer / "optimizer_0" / ".metadata").unlink()
    assert state_of(trainer) == (CheckpointState.DAMAGED, "optimizer_0/.metadata is missing")


@pytest.mark.parametrize(("real", "name"), [(TRAINER, "global_step60"), (ACCELERATE, "pytorch_model")])
def test_weights_and_optimizer_may_be_of_deepspeed(real, name, tmp_path):
    copy = copy_real(real, tmp_path)
    for gone in ("model.safetensors", "optimizer.pt", "optimizer.bin"):
        (copy / gone).unlink(missing_ok=True)
    tag = copy_real("deepspeed/run_zero1_tags/epoch_2", copy).rename(copy / name)
    (copy / "latest").write_text(name)
    assert state_of(copy) == (CheckpointState.COMPLETE, None)
    (copy / "latest").write_text("global_step99")
    assert state_of(copy) == (CheckpointState.DAMAGED, "latest names 'global_step99', which is missing")
    (copy / "latest").write_text(name)
    (tag / "zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    assert f"{name}/zero_pp_rank_1_mp_rank_00_optim_states.pt is missing" in state_of(copy)[1]


def test_unsafe_pickles_are_named_through_the_parts_of_a_broken_one(trainer):
    shutil.copy("tests/data/formats/torch/hostile/evil_epoch_4.pt", trainer / "optimizer.pt")
    (trainer / "trainer_state.json").unlink()
    found = recognise(trainer.parent)["checkpoint-60"]
    assert found.state is CheckpointState.DAMAGED
    assert found.unsafe


def test_an_output_directory_with_a_state_is_no_checkpoint(trainer, tmp_path):
    output = tmp_path / "output"
    output.mkdir()
    trainer.rename(output / "checkpoint-60")
    for name in ("trainer_state.json", "model.safetensors", "training_args.bin"):
        shutil.copy(output / "checkpoint-60" / name, output)
    assert "output/checkpoint-60" in recognise(tmp_path)


def test_a_staged_save_is_left_over(trainer):
    staged = trainer.rename(trainer.parent / "tmp-checkpoint-60")
    state, reason = state_of(staged)
    assert state is CheckpointState.COMPLETE
    assert "did not finish" in reason


def test_a_custom_object_between_others_is_missed(tmp_path):
    copy = copy_real(ACCELERATE, tmp_path)
    (copy / "custom_checkpoint_0.pkl").rename(copy / "custom_checkpoint_1.pkl")
    assert "custom_checkpoint_0.pkl is missing" in state_of(copy)[1]


def test_the_number_of_a_save_is_no_step(tmp_path):
    copy = copy_real(ACCELERATE, tmp_path)
    (copy / "custom_checkpoint_0.pkl").unlink()
    found = recognise(tmp_path)["checkpoint_4"]
    assert (found.state, found.epoch, found.step) == (CheckpointState.COMPLETE, None, None)


def test_shards_beside_checkpoints_are_a_set_and_hide_none(tmp_path):
    run = copy_real(SHARDS, tmp_path)
    copy_real(TRAINER, run)
    assert sorted(recognise(tmp_path)) == ["sharded_model/checkpoint-60", "sharded_model/model.safetensors"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda weights: weights.clear(), "maps no tensors"),
        (lambda weights: weights.update(a="model-00009-of-00002.safetensors"), "is missing"),
        (lambda weights: weights.update(a="../model.safetensors"), "to no file"),
        (lambda weights: weights.update(a="model-00001-of-00002.safetensors"), "does not hold 'a'"),
    ],
)
def test_an_index_that_does_not_fit_its_shards_is_damage(change, reason, tmp_path):
    copy = copy_real(SHARDS, tmp_path)
    index = json.loads((copy / "model.safetensors.index.json").read_text())
    change(index["weight_map"])
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    state, why = state_of(copy)
    assert state is CheckpointState.DAMAGED
    assert reason in why


def test_shards_of_torch_have_their_own_index(tmp_path):
    copy = tmp_path / "model"
    copy.mkdir()
    weights = "pytorch_model-00001-of-00001.bin"
    copy_real("torch/run_epochs/epoch_010.pt", copy).rename(copy / weights)
    assert state_of(copy) == (CheckpointState.COMPLETE, None)  # torchtune writes no index for one shard
    (copy / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"epoch": "elsewhere.bin"}}))
    assert state_of(copy)[0] is CheckpointState.DAMAGED
    (copy / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"epoch": weights}}))
    assert state_of(copy) == (CheckpointState.COMPLETE, None)
