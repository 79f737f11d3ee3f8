"""numpy's files: which of them are of a save, and which are somebody's data."""

import numpy as np
import pytest

from checkpoints.recognising import recognise


@pytest.mark.parametrize(
    "companion", ["optim_10.npz", "optimizer-10.npz", "opt10.npy", "rng_10.npy", "lr_scheduler_10.npz"]
)
def test_what_a_save_left_beside_its_model_is_of_it(tmp_path, companion):
    for name in ("model_10.npz", companion, companion.replace("10", "11"), "data_10.npz"):
        np.save(tmp_path / name, np.zeros(4)) if name.endswith("npy") else np.savez(tmp_path / name, a=np.zeros(4))
    assert set(recognise(tmp_path)) == {"model_10.npz", companion}


def test_the_companion_of_a_model_in_another_directory_is_data(tmp_path):
    for name in ("a/model_10.npz", "b/optim_10.npz"):
        (tmp_path / name).parent.mkdir()
        np.savez(tmp_path / name, a=np.zeros(4))
    assert set(recognise(tmp_path)) == {"a/model_10.npz"}
