"""Hugging Face's libraries and what is built on the Trainer."""

from layouts.real.contents import (
    binary,
    index,
    made,
    optimizer,
    rng,
    safetensors,
    scheduler,
    shard,
    torch,
    trainer_state,
)
from layouts.real.dcp_bytes import dcp
from layouts.real.layout import Layout, Only, Save, state, weights

TRAINER = "huggingface/transformers: src/transformers/trainer.py, _save_checkpoint"
CONFIG = '{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}'


def best_is_100(save):
    state = {"best_model_checkpoint": "/data/out/checkpoint-100", "epoch": save.e, "global_step": save.s}
    return made.json_text(state)


def inside(directory, *entries):
    """Put the files of several dictionaries into one directory."""
    return {f"{directory}/{name}": content for files in entries for name, content in files.items()}


ARGUMENTS = {"training_args.bin": torch(made.Instance("transformers.training_args", "TrainingArguments"))}
STATE = {"trainer_state.json": trainer_state}
TRAINING = {"optimizer.pt": optimizer, "scheduler.pt": scheduler}
RANDOM = {"rng_state.pth": rng}
RANDOM_OF_TWO = {"rng_state_{0,1}.pth": rng}
WEIGHTS = {"model.safetensors": safetensors, "config.json": CONFIG, "generation_config.json": "{}"}
TOKENIZER = {"tokenizer.json": "{}", "tokenizer_config.json": "{}"}
ADAPTER = {
    "adapter_model.safetensors": safetensors,
    "adapter_config.json": '{"peft_type": "LORA", "base_model_name_or_path": "gpt2"}',
    "README.md": "# LoRA\n",
}
SHARDS = {
    "model-{00001,00002}-of-00002.safetensors": shard(2),
    "model.safetensors.index.json": index("model-{:05d}-of-00002.safetensors", 2),
    "config.json": CONFIG,
}
DEEPSPEED = {
    "global_step<s>/mp_rank_00_model_states.pt": lambda n: made.deepspeed_model(n.s, dp_world_size=2),
    "global_step<s>/bf16_zero_pp_rank_{0,1}_mp_rank_00_optim_states.pt": lambda n: made.deepspeed_optimizer(n.r),
    "latest": "global_step<s>",
    "zero_to_fp32.py": "import torch\n",
}
ACCELERATE = {"optimizer.bin": optimizer, "scheduler.bin": scheduler, "random_states_{0,1}.pkl": rng}
LOGS = {"runs/Nov20_12-00-00_node/events.out.tfevents.1700000000.node.1.0": b"\0" * 32}
CHECKPOINT = "checkpoint-<s>"


def trainer(name, *entries, source=TRAINER, beside=LOGS, **more):
    """A row of the Trainer: the directory of the step holds all of one checkpoint."""
    return Layout(
        name=name,
        source=source,
        sets=(state(inside(CHECKPOINT, *entries), "s", path=CHECKPOINT, **more),),
        beside=beside,
    )


ROWS = (
    trainer("Hugging Face Trainer", WEIGHTS, TOKENIZER, TRAINING, RANDOM, ARGUMENTS, STATE),
    trainer("Hugging Face Trainer, several shards", SHARDS, TRAINING, RANDOM_OF_TWO, ARGUMENTS, STATE),
    trainer(
        "Hugging Face Trainer, load_best_model_at_end",
        WEIGHTS,
        TRAINING,
        RANDOM,
        ARGUMENTS,
        {"trainer_state.json": best_is_100},
        moves=(1,),
        why="the state names the first as the best, and the Trainer loads it at the end",
    ),
    Layout(
        name="Hugging Face Trainer, save_only_model",
        source=TRAINER,
        sets=(weights(inside(CHECKPOINT, WEIGHTS, TOKENIZER, ARGUMENTS, STATE), "s", path=CHECKPOINT),),
        beside=LOGS,
    ),
    trainer("PEFT adapter in the Trainer", ADAPTER, TRAINING, RANDOM, ARGUMENTS, STATE),
    trainer(
        "Hugging Face Trainer with FSDP",
        {
            "pytorch_model_fsdp_0": dcp("model.fc.weight"),
            "optimizer_0": dcp("optimizer.state.fc.weight.exp_avg"),
            "scheduler.pt": scheduler,
        },
        RANDOM_OF_TWO,
        STATE,
        source="huggingface/transformers: trainer.py; huggingface/accelerate: src/accelerate/utils/fsdp_utils.py",
    ),
    trainer(
        "Hugging Face Trainer with DeepSpeed",
        SHARDS,
        DEEPSPEED,
        {"scheduler.pt": scheduler},
        RANDOM_OF_TWO,
        ARGUMENTS,
        STATE,
    ),
    trainer(
        "TRL, GRPO",
        WEIGHTS,
        TRAINING,
        RANDOM,
        ARGUMENTS,
        STATE,
        source="huggingface/trl: trl/trainer/grpo_trainer.py",
        beside={**LOGS, "completions/completions_<s:05>.parquet": made.parquet()},
    ),
    trainer(
        "axolotl",
        ADAPTER,
        TRAINING,
        RANDOM,
        ARGUMENTS,
        STATE,
        {"tokens_state.json": '{"total": 1, "trainable": 1}'},
        source="axolotl-ai-cloud/axolotl: src/axolotl/core/trainers/base.py, _save_checkpoint",
        beside={
            "last_run_prepared/0123abcd/data-00000-of-00001.arrow": binary("ARROW1"),
            "last_run_prepared/0123abcd/dataset_info.json": "{}",
            "merged/model.safetensors": Only(2, safetensors),
            "merged/config.json": Only(2, CONFIG),
            "adapter_model.safetensors": Only(2, safetensors),
            "debug.log": "step\n",
        },
    ),
    trainer(
        "LLaMA-Factory, reward model",
        ADAPTER,
        {"value_head.safetensors": safetensors},
        TRAINING,
        RANDOM,
        ARGUMENTS,
        STATE,
        source="hiyouga/LLaMA-Factory: src/llamafactory/extras/constants.py, train/callbacks.py",
        beside={"trainer_log.jsonl": '{"loss": 1}\n', "running_log.txt": "step\n", "training_args.yaml": "lr: 1\n"},
    ),
    Layout(
        name="Accelerate, automatic_checkpoint_naming",
        source="huggingface/accelerate: src/accelerate/accelerator.py (save_state), checkpointing.py",
        sets=(
            state(
                inside("checkpoints/checkpoint_<i>", {"model.safetensors": safetensors}, ACCELERATE),
                "i",
                path="checkpoints/checkpoint_<i>",
            ),
        ),
        beside={"logs/loss.csv": "loss\n"},
    ),
    Layout(
        name="Accelerate with FSDP",
        source="huggingface/accelerate: src/accelerate/utils/fsdp_utils.py, save_fsdp_model",
        sets=(
            state(
                inside(
                    "checkpoints/checkpoint_<i>",
                    {
                        "pytorch_model_fsdp_0": dcp("model.fc.weight"),
                        "optimizer_0": dcp("optimizer.state.fc.weight.exp_avg"),
                        "scheduler.bin": scheduler,
                        "random_states_{0,1}.pkl": rng,
                    },
                ),
                "i",
                path="checkpoints/checkpoint_<i>",
            ),
        ),
    ),
    Layout(
        name="diffusers, text to image",
        source="huggingface/diffusers: examples/text_to_image/train_text_to_image.py",
        sets=(
            state(
                inside(
                    CHECKPOINT,
                    {
                        "{unet,unet_ema}/diffusion_pytorch_model.safetensors": safetensors,
                        "{unet,unet_ema}/config.json": '{"_class_name": "UNet2DConditionModel"}',
                    },
                    ACCELERATE,
                ),
                "s",
                path=CHECKPOINT,
            ),
        ),
        beside={"logs/text2image-fine-tune/events.out.tfevents.1700000000.node": b"\0" * 32},
    ),
    Layout(
        name="diffusers, LoRA",
        source="huggingface/diffusers: examples/text_to_image/train_text_to_image_lora.py",
        sets=(
            state(
                inside(
                    CHECKPOINT,
                    {"model.safetensors": safetensors, "pytorch_lora_weights.safetensors": safetensors},
                    ACCELERATE,
                ),
                "s",
                path=CHECKPOINT,
            ),
        ),
        beside={"pytorch_lora_weights.safetensors": Only(2, safetensors)},
    ),
    Layout(
        name="diffusers, textual inversion",
        source="huggingface/diffusers: examples/textual_inversion/textual_inversion.py",
        sets=(
            weights({"learned_embeds-steps-<s>.safetensors": safetensors}, "s"),
            state(inside(CHECKPOINT, {"model.safetensors": safetensors}, ACCELERATE), "s", path=CHECKPOINT),
        ),
        saves=tuple(Save(s=500 * (i + 1), i=i) for i in range(3)),
    ),
    Layout(
        name="exports by save_pretrained while training",
        source="huggingface/transformers: src/transformers/modeling_utils.py, save_pretrained",
        sets=(weights({"export/step_<s>/model.safetensors": safetensors}, "s"),),
    ),
)
