"""What the files of real layouts hold: tiny, of the right format, and with the numbers of the save where it tells them.

Each is a function of the save, as `layout.Content` has it. `sample` copies what frameworks wrote themselves.
"""

import io
import tarfile
from pathlib import Path

import numpy as np

from support import checkpoint_bytes as made

SAMPLES = Path(__file__).parents[2] / "data/formats"
PARAMETERS, ADAM = made.parameters(), made.adam()


def torch(state):
    """torch.save of a dictionary; `state` is that, or a function of the save."""
    return lambda save: made.torch_file(state(save) if callable(state) else state)


def whole(save):
    """Model, optimizer, epoch and step, as most scripts save them."""
    return made.torch_state(epoch=save.e or None, step=save.s or None)


def model(save):
    return made.torch_weights(1.0 + save.r)


def optimizer(save):
    return made.torch_optimizer(1.0 + save.r)


def scheduler(save):
    return made.torch_scheduler(save.s)


def rng(save):
    return made.torch_rng(save.r)


def tensors(save):
    """A bare tensor: data."""
    return made.torch_tensors(1.0 + save.r)


def safetensors(save):
    return made.safetensors(1.0 + save.r)


def shard(total):
    """One of several files of parameters, as an index names them; the alternatives in the name count from 1."""
    return lambda save: made.safetensors(names=(f"layer.{save.r}.weight",)) if total else b""


def index(pattern, total):
    """The index over such files, whose names are `pattern` with their number."""
    names = tuple(f"layer.{number}.weight" for number in range(1, total + 1))
    return made.safetensors_index([pattern.format(number) for number in range(1, total + 1)], names)


def trainer_state(save):
    return made.trainer_state(save.s)


def lightning(save):
    return made.lightning_state(epoch=save.e, step=save.s)


def sample(name, *changes):
    """A file that the framework wrote, with some bytes replaced by what a function of the save gives, once each."""

    def read(save):
        data = (SAMPLES / name).read_bytes()
        for old, new in changes:
            assert old in data, f"{name} does not hold {old!r}"
            data = data.replace(old, new(save), 1)
        return data

    return read


def sample_tree(name, *changes, rename=str):
    """A directory that the framework wrote, with text replaced in all its files."""

    def read(save):
        found = {}
        for path in sorted((SAMPLES / name).rglob("*")):
            if path.is_file():
                data = path.read_bytes()
                for old, new in changes:
                    data = data.replace(old, new(save))
                found[rename(str(path.relative_to(SAMPLES / name)))] = data
        return found

    return read


# other formats


def keras(save):
    return made.keras_archive(epoch=save.e, step=save.s)


def h5_weights(save):
    return made.h5_weights(1.0 + save.r)


def npz_state(save):
    return made.npz_state(epoch=save.e or None, step=save.s or None)


def arrays(save):
    return made.npz_arrays(1.0 + save.r)


def npy(save):
    return made.npy_array(1.0 + save.r)


def pickled(save):
    return made.pickle_state(epoch=save.e or None, step=save.s or None)


def pickled_values(save):
    return made.pickle_values(1.0 + save.r)


def estimator(save):
    return made.estimator(float(save.e))


def snapshot(save):
    """Particles of a simulation in HDF5."""
    return made.h5_snapshot(float(save.s))


def tar(save):
    """Training samples in an archive, as WebDataset reads them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for number in range(2):
            entry = tarfile.TarInfo(f"{save.r:04d}{number}.npy")
            entry.size = len(data := made.npy(np.arange(4)))
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def binary(word="data"):
    """Bytes of a format that no reader here knows."""
    return lambda save: b"\x01\x02\xff\xfe" + word.encode() + bytes(range(128)) + bytes([save.e, save.i, save.r]) * 8
