"""Where a search below a working directory looks: where jobs save, and not through everything that users keep there."""

import os

import pytest

from checkpoints.test_locate import ask  # noqa: F401 - a fixture
from support.checkpoint_bytes import torch_state, torch_weights

SAVED = {
    "Lightning": "lightning_logs/version_0/checkpoints/epoch=1-step=100.ckpt",
    "the Lightning and Hydra template": "logs/train/runs/2026-11-23_10-00-00/checkpoints/epoch_009.ckpt",
    "Hydra, several runs": "multirun/2026-11-23/10-00-00/3/checkpoints/last.ckpt",
    "NeMo": "nemo_experiments/asr/2026-11-23_10-00-00/checkpoints/asr--val_loss=0.4-epoch=1.ckpt",
    "MLflow": "mlruns/0/5f2a/artifacts/model/checkpoints/epoch_3.ckpt",
}
SOFTWARE = [
    ".git/logs/refs/remotes/origin/feature/topic/branch",
    "node_modules/a/lib/b/c/d/e/f/index.js",
    ".venv/lib/python3.11/site-packages/torch/utils/data/datapipes/iter/x.py",
    "conda/pkgs/lib/python3.11/a/b/c/d/x.py",
    ".cache/huggingface/hub/models--a/snapshots/1/2/3/4/model.safetensors",
    "src/__pycache__/x.pyc",
]


def save(path, *, since_ns=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(torch_state(3))
    if since_ns:
        os.utime(path, ns=(since_ns, since_ns))


def put(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")


@pytest.mark.parametrize("name", SAVED.values(), ids=SAVED)
def test_the_directories_that_frameworks_make_are_found(ask, tmp_path, name):  # noqa: F811
    save(tmp_path / name)
    assert ask(("discovery", "."))["directory"] == str((tmp_path / name).parent)


def test_software_and_version_control_leave_no_doubt(ask, tmp_path):  # noqa: F811
    for name in SOFTWARE:
        put(tmp_path / name)
    put(tmp_path / ".venv/pyvenv.cfg")
    put(tmp_path / "conda/conda-meta/history")
    found = ask(("discovery", "."))
    assert (found["directory"], found["problems"]) == (None, [])


def test_an_environment_under_any_name_is_left_out(ask, tmp_path):  # noqa: F811
    put(tmp_path / "my-env/pyvenv.cfg")
    for number in range(2000):
        put(tmp_path / f"my-env/lib/{number}.py")
    assert ask(("discovery", "."))["problems"] == []


def test_old_data_beside_it_do_not_use_up_the_bound(ask, tmp_path):  # noqa: F811
    for number in range(1500):
        put(tmp_path / f"a-data/{number % 10}/{number}.jpg")
    long_ago = 10**18
    for directory in (*(tmp_path / "a-data").iterdir(), tmp_path / "a-data"):
        os.utime(directory, ns=(long_ago, long_ago))
    save(tmp_path / "runs/1/ckpt_3.pt")
    assert ask(("discovery", "."))["directory"] == str(tmp_path / "runs/1")


INPUTS = {
    "pretrained": "pretrained/model.pt",
    "pretrained, deeper": "repo/pretrained_models/resnet/resnet50-0676ba61.pth",
    "the cache of torch.hub": "torch_home/hub/checkpoints/resnet50-0676ba61.pth",
    "the cache of huggingface_hub": "hf_cache/models--bert/snapshots/86b5/model.safetensors",
}


@pytest.mark.parametrize("name", INPUTS.values(), ids=INPUTS)
def test_downloaded_weights_are_no_checkpoints_of_the_job(ask, tmp_path, name):  # noqa: F811
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_bytes(torch_weights())
    assert ask(("discovery", "."))["directory"] is None
    save(tmp_path / "runs/last.pt")
    assert ask(("discovery", "."))["directory"] == str(tmp_path / "runs")


@pytest.mark.parametrize("name", ["pretrained/model.pt", "pretrained/epoch_3.pt"])
def test_states_are_found_also_where_downloads_would_be(ask, tmp_path, name):  # noqa: F811
    save(tmp_path / name)
    assert ask(("discovery", "."))["directory"] == str(tmp_path / "pretrained")


def test_weights_that_are_saved_after_each_epoch_are_no_downloads(ask, tmp_path):  # noqa: F811
    (tmp_path / "pretrained").mkdir()
    (tmp_path / "pretrained/epoch_3.pt").write_bytes(torch_weights())
    assert ask(("discovery", "."))["directory"] == str(tmp_path / "pretrained")
