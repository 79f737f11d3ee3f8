"""Training scripts on PyTorch that save with their own few lines."""

from layouts.real.contents import ADAM, PARAMETERS, made, model, optimizer, tensors, torch, whole
from layouts.real.dcp_bytes import dcp
from layouts.real.layout import (
    ANY,
    NOTHING,
    Layout,
    Save,
    fixed,
    state,
    unread,
    weights,
)

EPOCHS_FROM_0 = tuple(Save(e=i, s=100 * (i + 1), i=i) for i in range(3))


def imagenet(save):
    return {"epoch": save.e, "arch": "resnet50", "state_dict": PARAMETERS, "best_acc1": 70.0, "optimizer": ADAM}


ROWS = (
    Layout(
        name="PyTorch's ImageNet example",
        source="pytorch/examples: imagenet/main.py, save_checkpoint",
        sets=(
            fixed({"checkpoint.pth.tar": torch(imagenet)}),
            fixed({"model_best.pth.tar": torch(imagenet)}),
        ),
    ),
    Layout(
        name="PyTorch's DCGAN example",
        source="pytorch/examples: dcgan/main.py (do checkpointing)",
        sets=(weights({"netG_epoch_<e>.pth": model, "netD_epoch_<e>.pth": model}, "e"),),
        beside={"real_samples.png": made.png(), "fake_samples_epoch_<e:03>.png": made.png()},
        saves=EPOCHS_FROM_0,
    ),
    Layout(
        name="PyTorch's DDP tutorial",
        source="pytorch/examples: distributed/ddp-tutorial-series/multigpu_torchrun.py, _save_snapshot",
        sets=(fixed({"snapshot.pt": torch(lambda n: {"MODEL_STATE": PARAMETERS, "EPOCHS_RUN": n.e})}, role=ANY),),
    ),
    Layout(
        name="llama-recipes, FSDP with full state",
        source="meta-llama/llama-recipes: src/llama_recipes/model_checkpointing/checkpoint_handler.py",
        sets=(
            state(
                {
                    "ft-meta-llama/Llama-2-7b-hf/meta-llama--Llama-2-7b-hf-<e>.pt": model,
                    "ft-meta-llama/Llama-2-7b-hf/optimizer-meta-llama--Llama-2-7b-hf-<e>.pt": optimizer,
                },
                "e",
                moves=NOTHING,
                why="no word and no content tells the epoch from the number of a model among several",
            ),
        ),
        beside={"ft-meta-llama/Llama-2-7b-hf/train_params.yaml": "lr: 0.0001\n"},
        saves=EPOCHS_FROM_0,
    ),
    Layout(
        name="llama-recipes, FSDP with sharded state",
        source="meta-llama/llama-recipes: checkpoint_handler.py, save_model_and_optimizer_sharded",
        sets=(fixed({"fine-tuned-llama-7b": dcp("model.fc.weight", "optim.state.fc.weight.exp_avg")}),),
        note="every epoch saves into the same directory",
    ),
    Layout(
        name="nanoGPT",
        source="karpathy/nanoGPT: train.py",
        sets=(
            fixed(
                {
                    "out/ckpt.pt": torch(
                        lambda n: {
                            "model": PARAMETERS,
                            "optimizer": ADAM,
                            "model_args": {"n_layer": 12},
                            "iter_num": n.s,
                            "best_val_loss": 3.2,
                            "config": {},
                        }
                    )
                }
            ),
        ),
    ),
    Layout(
        name="litgpt, pretraining",
        source="Lightning-AI/litgpt: litgpt/pretrain.py, save_checkpoint",
        sets=(
            state(
                {
                    "step-<s:08>/lit_model.pth": torch(
                        lambda n: {
                            "model": PARAMETERS,
                            "optimizer": ADAM,
                            "train_dataloader": {},
                            "iter_num": 4 * n.s,
                            "step_count": n.s,
                        }
                    ),
                    "step-<s:08>/hyperparameters.yaml": "devices: 1\n",
                    "step-<s:08>/model_config.yaml": "name: pythia-14m\n",
                    "step-<s:08>/tokenizer.json": "{}",
                },
                "s",
                path="step-<s:08>",
            ),
        ),
        beside={"logs/tensorboard/version_0/events.out.tfevents.1700000000.node": b"\0" * 32},
    ),
    Layout(
        name="litgpt, LoRA",
        source="Lightning-AI/litgpt: litgpt/finetune/lora.py",
        sets=(
            unread(
                {
                    "step-<s:06>/lit_model.pth.lora": torch({"model": PARAMETERS}),
                    "step-<s:06>/hyperparameters.yaml": "devices: 1\n",
                },
                why="adapters alone",
            ),
        ),
    ),
    Layout(
        name="guided-diffusion",
        source="openai/guided-diffusion: guided_diffusion/train_util.py, TrainLoop.save",
        sets=(state({"model<s:06>.pt": model, "ema_0.9999_<s:06>.pt": model, "opt<s:06>.pt": optimizer}, "s"),),
        beside={"log.txt": "step 100\n", "progress.csv": "step,loss\n"},
        saves=tuple(Save(s=10_000 * (i + 1), i=i) for i in range(3)),
        note="the decay of the averaged weights, 0.9999, is no progress",
    ),
    Layout(
        name="a script that saves each rank into the directory of the step",
        source="pytorch/pytorch: torch/distributed/fsdp (LOCAL_STATE_DICT): names are the user's",
        sets=(
            state({"step_<s>/rank{0,1,2,3}.pt": lambda n: made.torch_rank_state(n.r, step=n.s)}, "s", path="step_<s>"),
        ),
        beside={"embeddings/emb_<s:05>.pt": tensors},
    ),
    Layout(
        name="a script with step and rank in the file name",
        source="pytorch/pytorch: torch/distributed/fsdp (LOCAL_STATE_DICT): names are the user's",
        sets=(state({"ckpt_<s>_rank_{0,1,2,3}.pt": lambda n: made.torch_rank_state(n.r, step=n.s)}, "s"),),
    ),
    Layout(
        name="a script that overwrites one file for each rank",
        source="pytorch/pytorch: torch/distributed/fsdp (LOCAL_STATE_DICT): names are the user's",
        sets=(fixed({"ckpt_rank{0,1,2,3}.pt": lambda n: made.torch_rank_state(n.r, step=n.s)}),),
    ),
    Layout(
        name="torchvision's reference scripts",
        source="pytorch/vision: references/classification/train.py",
        sets=(
            state(
                {
                    "model_<e>.pth": torch(
                        lambda n: {"model": PARAMETERS, "optimizer": ADAM, "lr_scheduler": {}, "epoch": n.e}
                    )
                },
                "e",
            ),
        ),
        beside={"checkpoint.pth": whole},
        saves=EPOCHS_FROM_0,
    ),
)
