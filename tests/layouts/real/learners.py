"""Reinforcement learning, boosted trees, estimators, evolution and other frameworks."""

import pickle

from layouts.real.contents import (
    ADAM,
    PARAMETERS,
    binary,
    estimator,
    made,
    model,
    optimizer,
    pickled_values,
    rng,
    sample,
    scheduler,
    torch,
    trainer_state,
)
from layouts.real.layout import ANY, NOTHING, Layout, Only, Save, state, unread

RAY = "ray-project/ray: python/ray/train/_internal/storage.py, session.py"
EXPERIMENT = "ray_results/TorchTrainer_2026-11-20_1<i>-00-00"
TRIAL = "exp/TorchTrainer_0a1b2_00000_0_2026-11-20_12-00-00"
RAY_BESIDE = {
    "exp/tuner.pkl": pickled_values,
    "exp/trainer.pkl": pickled_values,
    "exp/experiment_state-2026-11-20_12-00-00.json": "{}",
    f"{TRIAL}/params.json": "{}",
    f"{TRIAL}/params.pkl": pickled_values,
    f"{TRIAL}/progress.csv": "loss\n",
    f"{TRIAL}/result.json": '{"training_iteration": <e>}\n',
    f"{TRIAL}/events.out.tfevents.1700000000.node": b"\0" * 32,
}


def deap(save):
    content = {"population": [[0.5] * 4], "generation": save.s, "halloffame": [[0.5] * 4], "rndstate": (3, (1,), None)}
    return pickle.dumps(content)


def ray_snapshot(save):
    """What Ray's manager writes after each report: it refuses to resume where one that it names is missing."""
    names = [f"checkpoint_2026-11-20_1{number}-00-00.000000" for number in range(save.i + 1)]
    results = [{"checkpoint_dir_name": name, "metrics": {"loss": 1.0}} for name in names]
    return made.json_text({"checkpoint_results": results, "latest_checkpoint_result": results[-1]})


ROWS = (
    Layout(
        name="Ray Train, a file of PyTorch in each checkpoint",
        source=RAY,
        sets=(
            state(
                {
                    f"{TRIAL}/checkpoint_<i:06>/checkpoint.pt": torch(
                        lambda n: {"epoch": n.e, "model": PARAMETERS, "optimizer": ADAM}
                    ),
                    f"{TRIAL}/checkpoint_<i:06>/.metadata.json": "{}",
                },
                "i",
                path=f"{TRIAL}/checkpoint_<i:06>",
            ),
        ),
        beside=RAY_BESIDE,
    ),
    Layout(
        name="Ray Train, Hugging Face's Trainer inside",
        source=f"{RAY}; python/ray/train/huggingface/transformers/_transformers_utils.py",
        sets=(
            state(
                {
                    f"{TRIAL}/checkpoint_<i:06>/checkpoint/{name}": content
                    for name, content in {
                        "model.safetensors": lambda n: made.safetensors(),
                        "config.json": "{}",
                        "optimizer.pt": optimizer,
                        "scheduler.pt": scheduler,
                        "rng_state.pth": rng,
                        "trainer_state.json": trainer_state,
                    }.items()
                },
                "i",
            ),
        ),
        beside=RAY_BESIDE,
    ),
    Layout(
        name="Ray Train, version 2",
        source="ray-project/ray: python/ray/train/v2/_internal/execution/storage.py, checkpoint_manager.py",
        sets=(
            state(
                {
                    "exp/checkpoint_2026-11-20_1<i>-00-00.000000/model.pt": model,
                    "exp/checkpoint_2026-11-20_1<i>-00-00.000000/optimizer.pt": optimizer,
                },
                "",
                role=ANY,
                moves=NOTHING,
                why="the manager's file names them all, and Ray refuses to resume where one is missing",
            ),
        ),
        beside={"exp/checkpoint_manager_snapshot.json": ray_snapshot},
    ),
    Layout(
        name="Ray Tune, two trials",
        source=f"{RAY}; python/ray/tune",
        sets=(
            state(
                {
                    "exp/train_0a1b2_00000_0_lr=0.1000_2026-11-20/checkpoint_<i:06>/state.pt": torch(
                        lambda n: {"epoch": n.e, "model": PARAMETERS, "optimizer": ADAM}
                    )
                },
                "i",
            ),
            state(
                {
                    "exp/train_0a1b2_00001_1_lr=0.0100_2026-11-20/checkpoint_<i:06>/state.pt": torch(
                        lambda n: {"epoch": n.e, "model": PARAMETERS, "optimizer": ADAM}
                    )
                },
                "i",
            ),
        ),
        beside={"exp/tuner.pkl": pickled_values},
        note="the number of the trial is no progress: each trial keeps its newest",
    ),
    Layout(
        name="Ray Train, three experiments in one directory",
        source=RAY,
        sets=(
            state(
                {
                    f"{EXPERIMENT}/TorchTrainer_0a1b<i>_00000_0/checkpoint_000004/a.pt": (
                        torch(lambda n: {"epoch": 5, "model": PARAMETERS, "optimizer": ADAM})
                    )
                },
                "",
                moves=NOTHING,
                why="a directory with a date is another training",
            ),
        ),
    ),
    Layout(
        name="RLlib",
        source="docs.ray.io: rllib/package_ref, Algorithm.save_checkpoint",
        sets=(
            unread(
                {
                    "PPO/checkpoint_<i:06>/rllib_checkpoint.json": '{"type": "Algorithm", "checkpoint_version": "1.1"}',
                    "PPO/checkpoint_<i:06>/algorithm_state.pkl": pickled_values,
                    "PPO/checkpoint_<i:06>/policies/default_policy/policy_state.pkl": pickled_values,
                    "PPO/checkpoint_<i:06>/policies/default_policy/rllib_checkpoint.json": '{"type": "Policy"}',
                },
                role=ANY,
                why="pickles of no known content",
            ),
        ),
        beside={"PPO/result.json": "{}\n", "PPO/params.pkl": pickled_values},
    ),
    Layout(
        name="scikit-learn with joblib",
        source="scikit-learn.org: model_persistence; names are the user's",
        sets=(unread({"sgd_epoch_<e>.joblib": estimator}, why="an estimator in a pickle may be a result"),),
        beside={"scaler.joblib": estimator, "cv_results.pkl": pickled_values},
    ),
    Layout(
        name="XGBoost, TrainingCheckPoint",
        source="dmlc/xgboost: python-package/xgboost/callback.py, TrainingCheckPoint",
        sets=(
            unread({"ckpt/model_<s>.ubj": sample("xgboost/ckpt_5.ubj")}, why="the model itself, as an export has it"),
        ),
        beside={"final.json": Only(2, sample("xgboost/model_0004.json"))},
        saves=tuple(Save(s=10 * (i + 1), i=i) for i in range(3)),
    ),
    Layout(
        name="LightGBM, snapshot_freq",
        source="microsoft/LightGBM: src/boosting/gbdt.cpp, GBDT::Train",
        sets=(
            state({"LightGBM_model.txt.snapshot_iter_<s>": sample("lightgbm/LightGBM_model.txt.snapshot_iter_5")}, "s"),
        ),
        beside={"LightGBM_model.txt": sample("lightgbm/LightGBM_model.txt.snapshot_iter_5"), "train.conf": "a=1\n"},
    ),
    Layout(
        name="CatBoost",
        source="catboost.ai: features/snapshots; references/training-parameters/output",
        sets=(unread({"catboost_info/experiment.cbsnapshot": binary("catboost")}),),
        beside={
            "catboost_info/catboost_training.json": "{}",
            "catboost_info/learn_error.tsv": "iter\n",
            "catboost_info/learn/events.out.tfevents": b"\0" * 32,
        },
    ),
    Layout(
        name="PaddleNLP",
        source="PaddlePaddle/PaddleNLP: paddlenlp/trainer/trainer.py, trainer_utils.py",
        sets=(
            unread(
                {
                    "checkpoint-<s>/model_state.pdparams": pickled_values,
                    "checkpoint-<s>/optimizer.pdopt": pickled_values,
                    "checkpoint-<s>/scheduler.pdparams": pickled_values,
                    "checkpoint-<s>/rng_state.pth": rng,
                    "checkpoint-<s>/training_args.bin": torch({}),
                    "checkpoint-<s>/trainer_state.json": trainer_state,
                },
                role=ANY,
                why="its parts have no reader",
            ),
        ),
    ),
    Layout(
        name="DEAP",
        source="DEAP/deap: doc/tutorials/advanced/checkpoint.rst",
        sets=(state({"checkpoint_gen<s:03>.pkl": deap}, "s"),),
        saves=tuple(Save(s=10 * (i + 1), i=i) for i in range(3)),
    ),
    Layout(
        name="Kaldi nnet3",
        source="kaldi-asr/kaldi: egs/wsj/s5/steps/nnet3",
        sets=(unread({"exp/nnet3/<s>.mdl": binary("kaldi")}),),
        beside={"exp/nnet3/cache.<s>": binary("cache"), "exp/nnet3/<s>.{1,2}.raw": binary("part")},
    ),
)
