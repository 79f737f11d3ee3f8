"""The tiny files of tests are what the libraries that read such files take them for."""

import io
import json
import zipfile

import h5py
import numpy as np
import pytest
import safetensors.numpy

from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level
from support import checkpoint_bytes as files

ZIPPED = {
    "state.pt": files.torch_state(3, 300),
    "lightning.ckpt": files.lightning_state(3, 300),
    "weights.pt": files.torch_weights(),
    "optimizer.pt": files.torch_optimizer(),
    "emb.pt": files.torch_tensors(),
    "data.pt": files.pyg_data(),
    "state.npz": files.npz_state(3, 300),
    "model.keras": files.keras_archive(step=300),
}


@pytest.mark.parametrize("name", ZIPPED)
def test_the_standard_library_reads_every_archive_whole(name):
    assert zipfile.ZipFile(io.BytesIO(ZIPPED[name])).testzip() is None


def test_libraries_read_the_arrays():
    assert np.load(io.BytesIO(files.npz_state(3, 300)))["epoch"] == 3
    assert safetensors.numpy.load(files.safetensors())["fc.bias"].tolist() == [[0.5, 0.5], [0.5, 0.5]]
    with h5py.File(io.BytesIO(files.h5_keras_state(step=300))) as file:
        assert file["optimizer/vars/0"][()] == 300
    assert json.loads(files.trainer_state(300))["global_step"] == 300


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
def test_each_is_recognised_with_the_progress_that_it_was_given(tmp_path, level):
    progressed = {
        "epoch_3.pt": files.torch_state(3, 300),
        "epoch=3-step=300.ckpt": files.lightning_state(3, 300),
        "ckpt_300.npz": files.npz_state(3, 300),
        "gen_3.pkl": files.pickle_state(3, 300),
    }
    others = {
        "nothing.pt": files.torch_state(),
        "emb_00001.pt": files.torch_tensors(),
        "ridge.joblib": files.estimator(),
        "optimizer.pt": files.torch_optimizer(),
        "model.weights.h5": files.h5_weights(),
    }
    for name, data in {**progressed, **others}.items():
        (tmp_path / name).write_bytes(data)
    found = recognise(tmp_path, level)
    assert {found[name].state for name in (*progressed, *others)} == {CheckpointState.COMPLETE}
    assert {(found[name].content_epoch, found[name].content_step) for name in progressed} == {(3, 300)}
    assert {(found[name].content_epoch, found[name].content_step) for name in others} == {(None, None)}
    assert not any(one.unsafe for one in found.values())
