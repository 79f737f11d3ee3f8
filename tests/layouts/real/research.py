"""Frameworks of research groups on PyTorch, each with a saver of its own."""

from dataclasses import replace

from layouts.real.contents import ADAM, PARAMETERS, made, model, torch
from layouts.real.dcp_bytes import dcp
from layouts.real.layout import (
    NOTHING,
    HardLink,
    Layout,
    Only,
    Save,
    fixed,
    state,
    weights,
)

EPOCHS_FROM_0 = tuple(Save(e=i, s=100 * (i + 1), i=i) for i in range(3))


def icefall(save):
    optional = {"scheduler": {}, "grad_scaler": {}, "sampler": None, "batch_idx_train": save.s, "cur_epoch": save.e}
    return made.torch_file({"model": PARAMETERS, "optimizer": ADAM, **optional})


def baselines3(save):
    return made.stable_baselines3(save.s)


def fairseq(save):
    history = [{"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": save.s}]
    extra = {"train_iterator": {"epoch": save.e, "iterations_in_epoch": 0}, "val_loss": 2.5}
    return made.torch_file(
        {
            "args": None,
            "cfg": {},
            "model": PARAMETERS,
            "optimizer_history": history,
            "extra_state": extra,
            "last_optimizer_state": ADAM,
        }
    )


def composer(save):
    timestamp = {"Timestamp": {"epoch": save.e, "batch": save.s}}
    inner = {"model": PARAMETERS, "optimizers": {"DecoupledAdamW": ADAM}, "schedulers": {}, "timestamp": timestamp}
    return made.torch_file({"state": inner, "rng": [{"python": (3, (1, 2), None)}]})


def detectron(save):
    return made.torch_file({"model": PARAMETERS, "optimizer": ADAM, "scheduler": {}, "iteration": save.s})


def mmengine(save):
    meta = {"epoch": save.e, "iter": save.s, "seed": 7, "mmengine_version": "0.10.4"}
    rest = {"message_hub": {"log_scalars": {}}, "optimizer": ADAM, "param_schedulers": []}
    return made.torch_file({"meta": meta, "state_dict": PARAMETERS, **rest})


def timm(save):
    return made.torch_file(
        {"epoch": save.e, "arch": "resnet50", "state_dict": PARAMETERS, "optimizer": ADAM, "version": 2, "metric": 0.7}
    )


def ultralytics(save):
    network = made.Instance(
        "ultralytics.nn.tasks",
        "DetectionModel",
        (("training", False), ("_parameters", PARAMETERS), ("_modules", {}), ("nc", 80)),
    )
    return made.torch_file(
        {"epoch": save.e, "best_fitness": 0.4, "model": None, "ema": network, "updates": save.s, "optimizer": ADAM}
    )


ROWS = (
    Layout(
        name="timm, each epoch the best so far",
        source="huggingface/pytorch-image-models: timm/utils/checkpoint_saver.py",
        sets=(state({"checkpoint-<e>.pth.tar": timm}, "e"),),
        beside={
            "last.pth.tar": HardLink(to="checkpoint-<e>.pth.tar"),
            "model_best.pth.tar": HardLink(to="checkpoint-<e>.pth.tar"),
            "summary.csv": "epoch,loss\n",
            "args.yaml": "lr: 0.1\n",
        },
        saves=EPOCHS_FROM_0,
    ),
    Layout(
        name="timm, the second epoch the best",
        source="huggingface/pytorch-image-models: timm/utils/checkpoint_saver.py",
        sets=(
            state({"checkpoint-<e>.pth.tar": timm}, "e", moves=(0,), why="a hard link names the second as the best"),
        ),
        beside={
            "last.pth.tar": HardLink(to="checkpoint-<e>.pth.tar"),
            "model_best.pth.tar": Only(1, HardLink(to="checkpoint-<e>.pth.tar")),
            "summary.csv": "epoch,loss\n",
        },
        saves=EPOCHS_FROM_0,
    ),
    Layout(
        name="timm, three trainings in one directory",
        source="huggingface/pytorch-image-models: train.py (exp_name)",
        sets=(
            state(
                {"output/train/2026112<i>-120000-resnet50-224/checkpoint-9.pth.tar": lambda n: timm(replace(n, e=9))},
                "e",
                moves=NOTHING,
                why="a directory with a date is another training",
            ),
        ),
        beside={"output/train/2026112<i>-120000-resnet50-224/summary.csv": "epoch\n"},
    ),
    Layout(
        name="Ultralytics, save_period",
        source="ultralytics/ultralytics: ultralytics/engine/trainer.py, save_model",
        sets=(state({"weights/epoch<e>.pt": ultralytics}, "e"),),
        beside={
            "weights/last.pt": ultralytics,
            "weights/best.pt": ultralytics,
            "results.csv": "epoch,time\n",
            "args.yaml": "task: detect\n",
            "labels.jpg": made.png(),
        },
        saves=EPOCHS_FROM_0,
    ),
    Layout(
        name="fairseq, a checkpoint after each epoch",
        source="facebookresearch/fairseq: fairseq/checkpoint_utils.py, save_checkpoint",
        sets=(state({"checkpoint<e>.pt": fairseq}, "e"),),
        beside={"checkpoint_last.pt": fairseq, "checkpoint_best.pt": fairseq, "train.log": "epoch 1\n"},
    ),
    Layout(
        name="fairseq, checkpoints by updates",
        source="facebookresearch/fairseq: fairseq/checkpoint_utils.py, save_checkpoint",
        sets=(state({"checkpoint_<e>_<s>.pt": fairseq}, "es"),),
        beside={"checkpoint_last.pt": fairseq, "checkpoint.best_loss_2.5170.pt": Only(0, fairseq)},
        saves=(Save(e=1, s=500), Save(e=1, s=1000, i=1), Save(e=2, s=1500, i=2)),
    ),
    Layout(
        name="fairseq, FSDP with --use-sharded-state",
        source="facebookresearch/fairseq: fairseq/checkpoint_utils.py, get_maybe_sharded_checkpoint_filename",
        sets=(state({"checkpoint<e>-shard{0,1}.pt": fairseq}, "e"),),
        beside={"checkpoint_last-shard{0,1}.pt": fairseq, "checkpoint_best-shard{0,1}.pt": fairseq},
    ),
    Layout(
        name="fairseq, FSDP with --keep-best-checkpoints",
        source="facebookresearch/fairseq: fairseq/checkpoint_utils.py, save_checkpoint",
        sets=(
            state({"checkpoint<e>-shard{0,1}.pt": fairseq}, "e"),
            fixed({"checkpoint.best_loss_2.<s>-shard{0,1}.pt": fairseq}, why="the best, by the score in its name"),
        ),
        beside={"checkpoint_last-shard{0,1}.pt": fairseq},
    ),
    Layout(
        name="icefall",
        source="k2-fsa/icefall: icefall/checkpoint.py; egs/librispeech/ASR/zipformer/train.py",
        sets=(state({"epoch-<e>.pt": icefall}, "e"),),
        beside={"best-train-loss.pt": icefall, "best-valid-loss.pt": icefall, "log/log-train-2026-11-20": "epoch 1\n"},
    ),
    Layout(
        name="icefall, --save-every-n",
        source="k2-fsa/icefall: icefall/checkpoint.py, save_checkpoint_with_global_batch_idx",
        sets=(state({"checkpoint-<s>.pt": icefall}, "s"),),
        beside={"bad-model-{0,1}.pt": Only(0, model)},
        saves=tuple(Save(e=1, s=4000 * (i + 1), i=i) for i in range(3)),
    ),
    Layout(
        name="ESPnet2",
        source="espnet/espnet: espnet2/train/trainer.py, espnet2/main_funcs/average_nbest_models.py",
        sets=(
            fixed(
                {
                    "exp/checkpoint.pth": torch(
                        lambda n: {
                            "model": PARAMETERS,
                            "reporter": {"epoch": n.e},
                            "optimizers": [ADAM],
                            "schedulers": [None],
                            "scaler": None,
                        }
                    )
                }
            ),
            weights({"exp/<e>epoch.pth": model}, "e"),
        ),
        beside={
            "exp/valid.acc.ave_2best.pth": Only(2, model),
            "exp/att_ws/utt1/<e>ep.png": made.png(),
            "exp/images/loss.png": made.png(),
            "exp/train.log": "epoch 1\n",
        },
        links={"exp/latest.pth": "<e>epoch.pth", "exp/valid.acc.best.pth": "1epoch.pth"},
    ),
    Layout(
        name="Detectron2",
        source="facebookresearch/fvcore: fvcore/common/checkpoint.py; facebookresearch/detectron2: engine/defaults.py",
        sets=(state({"model_<s:07>.pth": detectron}, "s"),),
        beside={
            "last_checkpoint": "model_<s:07>.pth",
            "metrics.json": '{"iteration": 1}\n',
            "inference/instances_predictions.pth": torch([{"image_id": 1, "instances": []}]),
            "events.out.tfevents.1700000000.node.1.0": b"\0" * 32,
            "config.yaml": "VERSION: 2\n",
        },
        saves=tuple(Save(s=5000 * (i + 1) - 1, i=i) for i in range(3)),
    ),
    Layout(
        name="MMEngine",
        source="open-mmlab/mmengine: mmengine/hooks/checkpoint_hook.py",
        sets=(state({"epoch_<e>.pth": mmengine}, "e"),),
        beside={
            "best_coco_bbox_mAP_epoch_<e>.pth": Only(0, mmengine),
            "last_checkpoint": "/data/work_dirs/run/epoch_<e>.pth",
            "20261120_120000/vis_data/scalars.json": '{"lr": 0.1}\n',
            "config.py": "model = dict()\n",
        },
    ),
    Layout(
        name="MMEngine by iterations",
        source="open-mmlab/mmengine: mmengine/hooks/checkpoint_hook.py",
        sets=(state({"iter_<s>.pth": mmengine}, "s"),),
        beside={"last_checkpoint": "/data/work_dirs/run/iter_<s>.pth"},
        saves=tuple(Save(e=0, s=2000 * (i + 1), i=i) for i in range(3)),
    ),
    Layout(
        name="Ignite",
        source="pytorch/ignite: ignite/handlers/checkpoint.py, Checkpoint and DiskSaver",
        sets=(
            state(
                {
                    "training_checkpoint_<s>.pt": torch(
                        lambda n: {"model": PARAMETERS, "optimizer": ADAM, "trainer": {"iteration": n.s}}
                    )
                },
                "s",
            ),
            weights({"best_model_<e>_accuracy=0.8.pt": Only(0, model)}, "e"),
        ),
    ),
    Layout(
        name="fastai, SaveModelCallback(every_epoch=True)",
        source="fastai/fastai: fastai/callback/tracker.py, fastai/learner.py (save_model)",
        sets=(weights({"models/model_<e>.pth": model}, "e"),),
        beside={"export.pkl": torch({"model": PARAMETERS})},
        saves=EPOCHS_FROM_0,
    ),
    Layout(
        name="fastai with the optimizer",
        source="fastai/fastai: fastai/learner.py, save_model(with_opt=True)",
        sets=(
            state(
                {"models/model_<e>.pth": torch({"model": PARAMETERS, "opt": ADAM})},
                "e",
                moves=NOTHING,
                why="no word and no content tells the epoch from the number of a model among several",
            ),
        ),
        saves=EPOCHS_FROM_0,
    ),
    Layout(
        name="AllenNLP",
        source="allenai/allennlp: allennlp/training/checkpointer.py",
        sets=(
            state(
                {
                    "model_state_e<e>_b0.th": model,
                    "training_state_e<e>_b0.th": torch(lambda n: {"optimizer": ADAM, "epochs_completed": n.e}),
                },
                "e",
            ),
        ),
        beside={"best.th": model, "metrics_epoch_<e>.json": "{}", "vocabulary/tokens.txt": "a\n", "config.json": "{}"},
    ),
    Layout(
        name="Composer",
        source="mosaicml/composer: composer/callbacks/checkpoint_saver.py, composer/core/state.py",
        sets=(state({"run/checkpoints/ep<e>-ba<s>-rank0.pt": composer}, "es"),),
        links={"run/checkpoints/latest-rank0.pt": "ep<e>-ba<s>-rank0.pt"},
    ),
    Layout(
        name="Composer, sharded",
        source="mosaicml/composer: composer/utils/checkpoint.py, _save_checkpoint",
        sets=(
            state(
                {
                    "run/checkpoints/ep<e>-ba<s>": dcp(
                        "state.model.fc.weight", "state.optimizers.DecoupledAdamW.state.fc.weight.exp_avg"
                    )
                },
                "es",
                path="run/checkpoints/ep<e>-ba<s>",
            ),
        ),
        links={"run/checkpoints/latest-rank0.pt": "ep<e>-ba<s>"},
    ),
    Layout(
        name="Stable-Baselines3",
        source="DLR-RM/stable-baselines3: stable_baselines3/common/callbacks.py, CheckpointCallback",
        sets=(
            state(
                {
                    "logs/rl_model_<s>_steps.zip": baselines3,
                    "logs/rl_model_replay_buffer_<s>_steps.pkl": lambda n: made.pickle_values(),
                    "logs/rl_model_vecnormalize_<s>_steps.pkl": lambda n: made.pickle_values(0.25),
                },
                "s",
            ),
        ),
        beside={"logs/best_model.zip": baselines3, "logs/evaluations.npz": made.npz_arrays()},
    ),
)
