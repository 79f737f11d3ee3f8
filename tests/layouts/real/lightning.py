"""PyTorch Lightning, with and without sharded strategies."""

from layouts.real.contents import lightning, made, torch
from layouts.real.dcp_bytes import dcp
from layouts.real.layout import NOTHING, Layout, Only, Save, fixed, state

CALLBACK = "Lightning-AI/pytorch-lightning: src/lightning/pytorch/callbacks/model_checkpoint.py"
CONNECTOR = "Lightning-AI/pytorch-lightning: src/lightning/pytorch/trainer/connectors/checkpoint_connector.py"
VERSION = "lightning_logs/version_0"
BESIDE = {
    f"{VERSION}/hparams.yaml": "lr: 0.1\n",
    f"{VERSION}/metrics.csv": "epoch,loss\n",
    f"{VERSION}/events.out.tfevents.1700000000.node.1.0": b"\0" * 32,
}
EPOCHS = tuple(Save(e=i, s=400 * (i + 1), i=i) for i in range(3))


def finished(_):
    return made.lightning_state(epoch=9, step=1000)


ROWS = (
    Layout(
        name="Lightning, save_top_k=-1",
        source=CALLBACK,
        sets=(state({f"{VERSION}/checkpoints/epoch=<e>-step=<s>.ckpt": lightning}, "es"),),
        beside=BESIDE,
        saves=EPOCHS,
    ),
    Layout(
        name="Lightning, metrics in the name and last.ckpt",
        source=CALLBACK,
        sets=(
            state({"ckpts/epoch=<e:02>-val_loss=0.9<i>-val_acc=0.6<i>.ckpt": lightning}, "e"),
            fixed({"ckpts/last.ckpt": lightning}),
        ),
        saves=EPOCHS,
        note="the numbers of the metrics rise too, and are no progress",
    ),
    Layout(
        name="Lightning, save_last='link'",
        source=CALLBACK,
        sets=(state({"ckpts/epoch=<e>-step=<s>.ckpt": lightning}, "es"),),
        links={"ckpts/last.ckpt": "epoch=<e>-step=<s>.ckpt"},
        saves=EPOCHS,
    ),
    Layout(
        name="Lightning, another version of a name that was there",
        source=f"{CALLBACK}, STARTING_VERSION",
        sets=(state({"ckpts/epoch=<e>-step=<s>-v1.ckpt": lightning}, "es"),),
        saves=EPOCHS,
    ),
    Layout(
        name="Lightning, saved by Slurm's signal",
        source=f"{CONNECTOR}, hpc_save_path",
        sets=(state({"hpc_ckpt_<e>.ckpt": lambda n: made.lightning_state(epoch=n.e, step=n.s)}, "e"),),
        note="the number counts these files",
    ),
    Layout(
        name="Lightning, FSDP with sharded state",
        source="Lightning-AI/pytorch-lightning: src/lightning/fabric/strategies/fsdp.py",
        sets=(
            state(
                {
                    "ckpts/epoch=<e>-step=<s>.ckpt": dcp("state_dict.fc.weight", "optimizer_0.state.fc.weight.exp_avg"),
                    "ckpts/epoch=<e>-step=<s>.ckpt/meta.pt": torch(
                        lambda n: {"epoch": n.e, "global_step": n.s, "pytorch-lightning_version": "2.5.0", "loops": {}}
                    ),
                },
                "es",
                path="ckpts/epoch=<e>-step=<s>.ckpt",
            ),
        ),
        saves=EPOCHS,
    ),
    Layout(
        name="Lightning, DeepSpeed",
        source="Lightning-AI/pytorch-lightning: src/lightning/pytorch/strategies/deepspeed.py",
        sets=(
            state(
                {
                    "ckpts/epoch=<e>-step=<s>.ckpt/checkpoint/mp_rank_00_model_states.pt": (
                        lambda n: made.deepspeed_model(n.s, dp_world_size=2)
                    ),
                    "ckpts/epoch=<e>-step=<s>.ckpt/checkpoint/bf16_zero_pp_rank_{0,1}_mp_rank_00_optim_states.pt": (
                        lambda n: made.deepspeed_optimizer(n.r)
                    ),
                    "ckpts/epoch=<e>-step=<s>.ckpt/latest": "checkpoint",
                    "ckpts/epoch=<e>-step=<s>.ckpt/zero_to_fp32.py": "import torch\n",
                },
                "es",
                path="ckpts/epoch=<e>-step=<s>.ckpt",
            ),
        ),
        saves=EPOCHS,
    ),
    Layout(
        name="Lightning, an exception",
        source="Lightning-AI/pytorch-lightning: src/lightning/pytorch/callbacks/on_exception_checkpoint.py",
        sets=(state({"ckpts/epoch=<e>-step=<s>.ckpt": lightning}, "es"),),
        beside={"ckpts/on_exception.ckpt": Only(2, lightning)},
        saves=EPOCHS,
    ),
    Layout(
        name="Lightning, three versions in one directory",
        source="Lightning-AI/pytorch-lightning: src/lightning/pytorch/loggers/tensorboard.py, _get_next_version",
        sets=(
            state(
                {"lightning_logs/version_<i>/checkpoints/epoch=9-step=1000.ckpt": finished},
                "es",
                moves=NOTHING,
                why="each version is another training",
            ),
        ),
    ),
    Layout(
        name="Lightning under Hydra",
        source="facebookresearch/hydra: hydra/conf/__init__.py, run.dir (outputs/DATE/TIME)",
        sets=(
            state(
                {"outputs/2026-11-2<i>/10-00-00/checkpoints/epoch=9-step=1000.ckpt": finished},
                "es",
                moves=NOTHING,
                why="a directory with a date is another training",
            ),
        ),
        beside={"outputs/2026-11-2<i>/10-00-00/.hydra/config.yaml": "lr: 1\n"},
    ),
)
