"""Frameworks that train on many ranks at once: each writes a part."""

from layouts.real.contents import ADAM, index, made, model, optimizer, rng, safetensors, shard, torch
from layouts.real.dcp_bytes import dcp
from layouts.real.layout import Layout, Only, state, weights

STEP = "global_step<s>"
ZERO = "deepspeedai/DeepSpeed: deepspeed/runtime/engine.py"
MEGATRON = "NVIDIA/Megatron-LM: megatron/training/checkpointing.py"
CHECKPOINT = {"latest": STEP, "zero_to_fp32.py": "import torch\n"}
NEMO = "checkpoints/model_name=0--val_loss=2.50-step=<s>-consumed_samples=<s>0.0"
TRACKER = {"latest_checkpointed_iteration.txt": "<s>"}


def deepspeed(dp=1, mp=1):
    return lambda n: made.deepspeed_model(n.s, dp_world_size=dp, mp_world_size=mp)


def shard_of_optimizer(save):
    return made.deepspeed_optimizer(save.r)


def inside(directory, files):
    return {f"{directory}/{name}": content for name, content in files.items()}


def common(save):
    return made.torch_file({"iteration": save.s, "checkpoint_version": 3.0, "rng_state": [1, 2]})


def megatron_core(prefix=""):
    """The files of a torch_dist directory."""
    names = ("model.decoder.fc.weight", "optimizer.state.exp_avg.model.decoder.fc.weight")
    return {
        f"{prefix}": dcp(*names),
        f"{prefix}/common.pt": common,
        f"{prefix}/metadata.json": '{"sharded_backend": "torch_dist", "sharded_backend_version": 1}',
    }


def verl(role):
    """One role's files: three for each rank, and what a reader of the weights needs."""
    extra = torch(lambda n: {"lr_scheduler": {"last_epoch": n.s}, "rng": {"cpu": made.Tensor((4,))}})
    return {
        f"global_step_<s>/{role}/model_world_size_2_rank_{{0,1}}.pt": model,
        f"global_step_<s>/{role}/optim_world_size_2_rank_{{0,1}}.pt": optimizer,
        f"global_step_<s>/{role}/extra_state_world_size_2_rank_{{0,1}}.pt": extra,
        f"global_step_<s>/{role}/fsdp_config.json": '{"FSDP_version": 1, "world_size": 2}',
        f"global_step_<s>/{role}/huggingface/config.json": "{}",
    }


def openrlhf(role):
    return inside(
        f"{role}/{STEP}",
        {
            "mp_rank_00_model_states.pt": deepspeed(2),
            "bf16_zero_pp_rank_{0,1}_mp_rank_00_optim_states.pt": shard_of_optimizer,
        },
    )


ROWS = (
    Layout(
        name="DeepSpeed, ZeRO 1 and 2",
        source=f"{ZERO}, _get_zero_ckpt_name",
        sets=(
            state(
                inside(
                    STEP,
                    {
                        "mp_rank_00_model_states.pt": deepspeed(4),
                        "bf16_zero_pp_rank_{0,1,2,3}_mp_rank_00_optim_states.pt": shard_of_optimizer,
                    },
                ),
                "s",
                path=STEP,
            ),
        ),
        beside=CHECKPOINT,
    ),
    Layout(
        name="DeepSpeed, ZeRO 3",
        source=f"{ZERO}, _get_ckpt_name",
        sets=(
            state(
                inside(
                    STEP,
                    {
                        "zero_pp_rank_{0,1}_mp_rank_00_model_states.pt": deepspeed(2),
                        "zero_pp_rank_{0,1}_mp_rank_00_optim_states.pt": shard_of_optimizer,
                    },
                ),
                "s",
                path=STEP,
            ),
        ),
        beside=CHECKPOINT,
    ),
    Layout(
        name="DeepSpeed, pipeline",
        source=f"{ZERO}; deepspeed/runtime/pipe/module.py, ckpt_layer_path",
        sets=(
            state(
                inside(
                    STEP,
                    {
                        "layer_{00,01,02}-model_00-model_states.pt": model,
                        "mp_rank_{00,01}_model_states.pt": deepspeed(1, 2),
                        "zero_pp_rank_0_mp_rank_{00,01}_optim_states.pt": shard_of_optimizer,
                    },
                ),
                "s",
                path=STEP,
            ),
        ),
        beside=CHECKPOINT,
    ),
    Layout(
        name="DeepSpeed, mixture of experts",
        source=f"{ZERO}, _get_expert_ckpt_name and _get_optimizer_ckpt_name",
        sets=(
            state(
                inside(
                    STEP,
                    {
                        "layer_0_expert_{0,1}_mp_rank_00_model_states.pt": model,
                        "expp_rank_{0,1}_mp_rank_00_optim_states.pt": shard_of_optimizer,
                        "mp_rank_00_model_states.pt": deepspeed(1),
                    },
                ),
                "s",
                path=STEP,
            ),
        ),
        beside=CHECKPOINT,
    ),
    Layout(
        name="Megatron-LM, classic, tensor parallel",
        source=f"{MEGATRON}, get_checkpoint_name",
        sets=(
            state(
                {
                    "iter_<s:07>/mp_rank_{00,01}/model_optim_rng.pt": lambda n: made.megatron_rank(
                        n.s, n.r, tensor_size=2
                    )
                },
                "s",
                path="iter_<s:07>",
            ),
        ),
        beside={**TRACKER, "tensorboard/events.out.tfevents.1700000000.node": b"\0" * 32},
    ),
    Layout(
        name="Megatron-LM, classic, pipeline and distributed optimizer",
        source=f"{MEGATRON}, get_checkpoint_name and get_distributed_optimizer_checkpoint_name",
        sets=(
            state(
                {
                    "iter_<s:07>/mp_rank_{00,01}_{000,001}/model_optim_rng.pt": lambda n: made.megatron_rank(
                        n.s, n.r, tensor_size=2, pipeline_size=2
                    ),
                    "iter_<s:07>/mp_rank_{00,01}_{000,001}/distrib_optim.pt": optimizer,
                },
                "s",
                path="iter_<s:07>",
            ),
        ),
        beside=TRACKER,
    ),
    Layout(
        name="Megatron-LM, torch_dist",
        source=f"{MEGATRON}; megatron/core/dist_checkpointing/core.py, strategies/common.py",
        sets=(state(megatron_core("iter_<s:07>"), "s", path="iter_<s:07>"),),
        beside=TRACKER,
    ),
    Layout(
        name="verl, PPO with FSDP",
        source="volcengine/verl: verl/utils/checkpoint/fsdp_checkpoint_manager.py, verl/trainer/ppo/ray_trainer.py",
        sets=(
            state(
                {
                    **verl("actor"),
                    **verl("critic"),
                    "global_step_<s>/data.pt": torch(lambda n: {"_num_yielded": n.s, "_sampler_iter_state": None}),
                },
                "s",
                path="global_step_<s>",
            ),
        ),
        beside={**TRACKER, "rollouts/<s>.jsonl": '{"input": "a"}\n'},
    ),
    Layout(
        name="verl, supervised fine-tuning",
        source="volcengine/verl: verl/utils/checkpoint/checkpoint_handler.py",
        sets=(
            state(
                {
                    "global_step_<s>/{model,optim}_world_size_2_rank_{0,1}.pt": lambda n: (
                        optimizer(n) if n.chosen[0] == "optim" else model(n)
                    ),
                    "global_step_<s>/extra_state_world_size_2_rank_{0,1}.pt": rng,
                    "global_step_<s>/data_{0,1}.pt": torch(lambda n: {"_num_yielded": n.s}),
                    "global_step_<s>/huggingface/config.json": "{}",
                },
                "s",
                path="global_step_<s>",
            ),
        ),
        beside=TRACKER,
    ),
    Layout(
        name="OpenRLHF, PPO",
        source="OpenRLHF/OpenRLHF: openrlhf/utils/deepspeed/deepspeed.py, openrlhf/trainer/ppo_trainer.py",
        sets=(state({**openrlhf("_actor"), **openrlhf("_critic")}, "s"),),
        beside={"{_actor,_critic}/latest": STEP, "global_step<s>_hf/model.safetensors": Only(2, safetensors)},
    ),
    Layout(
        name="OpenRLHF, supervised fine-tuning",
        source="OpenRLHF/OpenRLHF: openrlhf/utils/deepspeed/deepspeed.py, save_ckpt",
        sets=(state(openrlhf("ckpt"), "s", path=f"ckpt/{STEP}"),),
        beside={"ckpt/latest": STEP, "global_step<s>_hf/model.safetensors": safetensors},
    ),
    Layout(
        name="torchtune, full fine-tuning",
        source="pytorch/torchtune: torchtune/training/checkpointing/_checkpointer.py, FullModelHFCheckpointer",
        sets=(
            state(
                inside(
                    "epoch_<i>",
                    {
                        "model-{00001,00002}-of-00002.safetensors": shard(2),
                        "model.safetensors.index.json": index("model-{:05d}-of-00002.safetensors", 2),
                        "recipe_state.pt": torch(
                            lambda n: {"optimizer": ADAM, "epochs_run": n.i, "seed": 7, "total_epochs": 3}
                        ),
                        "config.json": "{}",
                        "original_repo_id.json": "{}",
                    },
                ),
                "i",
                path="epoch_<i>",
            ),
        ),
        beside={"logs/log_1700000000.txt": "Step 1\n", "torchtune_config.yaml": "seed: 7\n"},
    ),
    Layout(
        name="torchtune, Meta format",
        source="pytorch/torchtune: torchtune/training/checkpointing/_checkpointer.py, FullModelMetaCheckpointer",
        sets=(
            weights(
                {"epoch_<i>/model-00001-of-00001.bin": model, "epoch_<i>/params.json": "{}"},
                "i",
                why="parameters alone: the optimizer is in one file that each epoch replaces",
            ),
        ),
        beside={"recipe_state/recipe_state.pt": torch(lambda n: {"optimizer": ADAM, "epochs_run": n.i})},
    ),
    Layout(
        name="torchtune, LoRA",
        source="pytorch/torchtune: torchtune/training/checkpointing/_checkpointer.py",
        sets=(
            state(
                inside(
                    "epoch_<i>",
                    {
                        "adapter_model.pt": model,
                        "adapter_model.safetensors": safetensors,
                        "adapter_config.json": '{"peft_type": "LORA"}',
                        "recipe_state.pt": torch(lambda n: {"optimizer": ADAM, "epochs_run": n.i}),
                    },
                ),
                "i",
                path="epoch_<i>",
            ),
        ),
    ),
    Layout(
        name="torchtitan",
        source="pytorch/torchtitan: torchtitan/components/checkpointer/dcp.py",
        sets=(
            state(
                {
                    "checkpoint/step-<s>": dcp(
                        "layers.0.fc.weight", "optimizer.state.layers.0.fc.weight.exp_avg", step="train_state.step"
                    )
                },
                "s",
                path="checkpoint/step-<s>",
            ),
        ),
        beside={"tb/20261120-1200/events.out.tfevents.1700000000.node": b"\0" * 32},
    ),
    Layout(
        name="fms-fsdp",
        source="foundation-model-stack/fms-fsdp: fms_fsdp/utils/checkpointing_utils.py, Checkpointer.save",
        sets=(
            state(
                {
                    "checkpoints/step_<s>_ckp": dcp("model_state.fc.weight", "optimizer_state.state.fc.weight.exp_avg"),
                    "checkpoints/step_<s>_ckp/loader_state_{0,1}.pth": torch({"ScalableShardDataset.rank": 0}),
                    "checkpoints/step_<s>_ckp/metadata.pth": torch(lambda n: {"step": n.s, "tokens_seen": 4096 * n.s}),
                },
                "s",
                path="checkpoints/step_<s>_ckp",
            ),
        ),
    ),
    Layout(
        name="PyTorch DCP by hand",
        source="pytorch/pytorch: torch/distributed/checkpoint/filesystem.py; docs, distributed_checkpoint_recipe",
        sets=(
            state(
                {"checkpoints/step_<s>": dcp("app.model.fc.weight", "app.optim.state.fc.weight.exp_avg")},
                "s",
                path="checkpoints/step_<s>",
            ),
        ),
    ),
    Layout(
        name="NeMo 1, tensor parallel",
        source="NVIDIA-NeMo/NeMo: nemo/utils/model_utils.py (inject_model_parallel_rank), nemo_model_checkpoint.py",
        sets=(
            state(
                {
                    "checkpoints/mp_rank_{00,01}/gpt--val_loss=2.50-step=<s>-consumed_samples=6400.0.ckpt": (
                        lambda n: made.lightning_state(epoch=0, step=n.s)
                    )
                },
                "s",
            ),
        ),
        beside={
            "checkpoints/mp_rank_{00,01}/gpt--val_loss=2.50-step=<s>-consumed_samples=6400.0-last.ckpt": Only(
                2, lambda n: made.lightning_state(epoch=0, step=n.s)
            ),
            "gpt.nemo": Only(2, made.stored_zip({"model_config.yaml": b"a: 1"})),
            "nemo_log_globalrank-0_localrank-0.txt": "step\n",
            "hparams.yaml": "a: 1\n",
        },
    ),
    Layout(
        name="NeMo 2",
        source="NVIDIA-NeMo/NeMo: nemo/lightning/ckpt_utils.py, nemo/lightning/pytorch/callbacks/model_checkpoint.py",
        sets=(
            state(
                {
                    **megatron_core(f"{NEMO}/weights"),
                    f"{NEMO}/context/io.json": "{}",
                    f"{NEMO}/context/model.yaml": "a: 1\n",
                },
                "s",
                path=NEMO,
            ),
        ),
    ),
)
