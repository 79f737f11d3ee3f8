"""Tiny files that frameworks would write, byte by byte and without the frameworks.

`torch_file` encodes any value as torch.save does: a zip archive of `data.pkl`, `version`, `byteorder` and one entry for
each storage. The functions behind it give the usual contents. Where a state takes `epoch` and `step`, None leaves
them out: many training scripts save neither.
"""

import io
import json
import pickle
import struct
import zlib
from functools import cache, lru_cache

import h5py
import numpy as np

from support.torch_pickle import Instance, Opcodes, OrderedState, Tensor, stored_zip, torch_file

# torch


def parameters(value=0.5):
    """The state_dict of a tiny network."""
    return OrderedState({"fc.weight": Tensor((2, 2), value), "fc.bias": Tensor((2,), value)})


def adam(value=0.25):
    """The state_dict of an optimizer; its own `step` counts updates and is no progress of the run."""
    moments = {"step": Tensor((), 7.0), "exp_avg": Tensor((2, 2), value), "exp_avg_sq": Tensor((2, 2), value)}
    return {
        "state": {0: moments},
        "param_groups": [{"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-08, "weight_decay": 0, "params": [0, 1]}],
    }


def counted(epoch, step, epoch_key="epoch", step_key="step"):
    """The entries of a state that say how far it is."""
    told = {epoch_key: epoch, step_key: step}
    return {key: number for key, number in told.items() if number is not None}


@lru_cache(maxsize=4096)
def torch_state(epoch=None, step=None, *, value=0.5):
    """A whole state as most scripts save it: model, optimizer, epoch, step."""
    return torch_file({**counted(epoch, step), "model": parameters(value), "optimizer": adam()})


@lru_cache(maxsize=4096)
def lightning_state(epoch=None, step=None):
    """What Lightning's Trainer saves."""
    return torch_file(
        {
            **counted(epoch, step, step_key="global_step"),
            "pytorch-lightning_version": "2.6.0",
            "state_dict": parameters(),
            "loops": {},
            "callbacks": {},
            "optimizer_states": [adam()],
            "lr_schedulers": [],
        }
    )


@lru_cache(maxsize=4096)
def torch_rank_state(rank, epoch=None, step=None, *, world_size=None):
    """One rank's part of a state: its shard of the parameters and of the optimizer's moments."""
    told = {} if world_size is None else {"rank": rank, "world_size": world_size}
    return torch_file({**counted(epoch, step), **told, "model": parameters(1.0 + rank), "optimizer": adam(1.0 + rank)})


@lru_cache(maxsize=1024)
def torch_weights(value=0.5):
    """Bare parameters: torch.save(model.state_dict())."""
    return torch_file(parameters(value))


@lru_cache(maxsize=1024)
def torch_optimizer(value=0.25):
    """torch.save(optimizer.state_dict())."""
    return torch_file(adam(value))


@cache
def stable_baselines3(step, goal=1_000_000):
    """An agent of Stable-Baselines3 after so many steps, with its policy and optimizer."""
    attributes = json.dumps({"num_timesteps": step, "_total_timesteps": goal}).encode()
    parts = {"policy.pth": torch_weights(), "policy.optimizer.pth": torch_optimizer()}
    return stored_zip({"data": attributes, **parts, "_stable_baselines3_version": b"2.7.0"})


@cache
def torch_scheduler(step=None):
    """torch.save(scheduler.state_dict()) of a LambdaLR; None: one that says no step."""
    told = {} if step is None else {"last_epoch": step, "_step_count": step + 1}
    return torch_file({"base_lrs": [0.001], **told, "_last_lr": [0.001]})


@cache
def torch_rng(rank=0):
    """The states of random number generators, as `rng_state_0.pth` holds them."""
    return torch_file({"python": (3, (rank, 1, 2), None), "numpy": ("MT19937", 1), "cpu": Tensor((4,), rank)})


@lru_cache(maxsize=1024)
def torch_tensors(value=0.5, *, shape=(4, 4)):
    """A bare tensor, as embeddings and samples are saved."""
    return torch_file(Tensor(shape, value))


@lru_cache(maxsize=1024)
def torch_embeddings(value=0.5):
    """Embeddings with their ids, as a job that embeds a corpus saves them."""
    return torch_file({"ids": [1, 2, 3, 4], "embeddings": Tensor((4, 4), value)})


@lru_cache(maxsize=1024)
def pyg_data(value=0.5):
    """A graph that PyTorch Geometric saved: an object of its class Data."""
    mapping = {"x": Tensor((3, 2), value), "edge_index": Tensor((2, 4), value), "y": Tensor((1,), value)}
    store = Instance("torch_geometric.data.storage", "GlobalStorage", (("_mapping", mapping), ("_parent", None)))
    return torch_file(
        Instance("torch_geometric.data.data", "Data", (("_edge_attr_cls", None), ("_store", store))), "data"
    )


@lru_cache(maxsize=1024)
def pyg_dataset(value=0.5):
    """What InMemoryDataset.save writes: a tuple of the graphs' dictionary, the slices and the class."""
    graphs = {"x": Tensor((6, 2), value), "edge_index": Tensor((2, 8), value)}
    return torch_file((graphs, {"x": Tensor((3,), 1.0)}, {}), "data")


# frameworks' parts


@lru_cache(maxsize=1024)
def deepspeed_model(step=None, *, dp_world_size=1, mp_world_size=1):
    """`mp_rank_00_model_states.pt`."""
    told = counted(None, step, step_key="global_steps")
    worlds = {"dp_world_size": dp_world_size, "mp_world_size": mp_world_size}
    return torch_file({"module": parameters(), **told, **worlds, "ds_version": "0.19.0", "optimizer": None})


@lru_cache(maxsize=1024)
def deepspeed_optimizer(rank=0):
    """`zero_pp_rank_0_mp_rank_00_optim_states.pt`."""
    return torch_file({"optimizer_state_dict": {"zero_stage": 2, "base_optimizer_state": adam(1.0 + rank)}})


@lru_cache(maxsize=1024)
def megatron_rank(step=None, rank=0, *, tensor_size=1, pipeline_size=1):
    """`model_optim_rng.pt` of Megatron's classic layout."""
    sizes = {"tensor_model_parallel_size": tensor_size, "pipeline_model_parallel_size": pipeline_size}
    arguments = Instance("argparse", "Namespace", tuple(sizes.items()))
    return torch_file(
        {
            "args": arguments,
            "checkpoint_version": 3.0,
            **counted(None, step, step_key="iteration"),
            "model": parameters(1.0 + rank),
            "optimizer": adam(1.0 + rank),
        }
    )


@lru_cache(maxsize=1024)
def distributed(step=None, *, rank_count=1):
    """The files of torch.distributed.checkpoint's directory, by their names; `.metadata` is written last."""
    module = "torch.distributed.checkpoint.metadata"
    described, places, files = {}, {}, {}
    for rank in range(rank_count):
        items = {f"model.{rank}": parameters(1.0 + rank), f"optimizer.state.{rank}": adam(1.0 + rank)}
        if rank == 0 and step is not None:
            items["step"] = step
        name, data = f"__{rank}_0.distcp", b""
        for item, value in items.items():
            content = torch_file(value)
            described[item] = Instance(module, "BytesStorageMetadata")
            index = Instance(module, "MetadataIndex", (("fqn", item), ("offset", None), ("index", None)))
            place = (("relative_path", name), ("offset", len(data)), ("length", len(content)))
            places[index] = Instance("torch.distributed.checkpoint.filesystem", "_StorageInfo", place)
            data += content
        files[name] = data
    lists = (("state_dict_metadata", described), ("planner_data", None), ("storage_data", places))
    files[".metadata"] = bytes(Opcodes().write(Instance(module, "Metadata", lists)).out + b".")
    return files


# other formats


@lru_cache(maxsize=1024)
def safetensors(value=0.5, *, names=("fc.weight", "fc.bias"), metadata=(("format", "pt"),)):
    """Bare parameters, as safetensors.torch.save_file writes them."""
    data = Tensor((2, 2), value).data
    entries = {
        name: {"dtype": "F32", "shape": [2, 2], "data_offsets": [at * len(data), (at + 1) * len(data)]}
        for at, name in enumerate(names)
    }
    text = json.dumps({"__metadata__": dict(metadata), **entries}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data * len(names)


def safetensors_index(files, names=("fc.weight", "fc.bias")):
    """`model.safetensors.index.json` over shards."""
    return json_text({"metadata": {"total_size": 32}, "weight_map": dict(zip(names, files, strict=False))})


def npy(array):
    """One array, as numpy.save writes it."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), allow_pickle=True)
    return out.getvalue()


def npz(**arrays):
    """Named arrays, as numpy.savez writes them."""
    return stored_zip({f"{name}.npy": npy(array) for name, array in arrays.items()})


@lru_cache(maxsize=1024)
def npz_state(epoch=None, step=None, *, value=0.5):
    """A whole state of a JAX or numpy script: parameters, moments, epoch, step."""
    told = {name: np.int64(number) for name, number in counted(epoch, step).items()}
    filled = np.full(4, value)
    return npz(params=filled, opt_state_mu=filled, opt_state_nu=filled, rng_key=np.arange(2), **told)


@lru_cache(maxsize=1024)
def npz_arrays(value=0.5):
    """Arrays that are results or inputs: fields, images, features."""
    return npz(x=np.full(8, value), y=np.arange(8))


@lru_cache(maxsize=1024)
def npy_array(value=0.5):
    return npy(np.full(8, value))


@lru_cache(maxsize=1024)
def h5_weights(value=0.5):
    """Keras's `.weights.h5`: the parameters of layers."""
    return h5_file({"layers/dense/vars/0": np.full((2, 2), value), "layers/dense/vars/1": np.full(2, value)})


@lru_cache(maxsize=1024)
def h5_keras_state(epoch=None, step=None, *, value=0.5):
    """A whole model of Keras in HDF5: parameters and the optimizer's variables, its iteration the first of them."""
    filled = np.full((2, 2), value)
    moments = {"optimizer/vars/2": filled, "optimizer/vars/3": filled}
    told = {} if step is None else {"optimizer/vars/0": np.int64(step)}
    return h5_file({"layers/dense/vars/0": filled, **moments, **told})


@lru_cache(maxsize=1024)
def h5_snapshot(time=0.0, value=0.5):
    """A simulation's output: particles and the time in the header."""
    fields = {"PartType0/Coordinates": np.full((4, 3), value), "PartType0/Masses": np.full(4, value)}
    return h5_file(fields, {"Header": {"Time": time, "NumFilesPerSnapshot": 1}})


def h5_file(datasets, attributes=None):
    """An HDF5 file of these data sets, and attributes by group."""
    with h5py.File.in_memory() as file:
        for name, data in datasets.items():
            file.create_dataset(name, data=data, track_times=False)
        for group, values in (attributes or {}).items():
            file.require_group(group).attrs.update(values)
        file.flush()
        return file.id.get_file_image()


@lru_cache(maxsize=1024)
def pickle_state(epoch=None, step=None, *, value=0.5):
    """A whole state in a plain pickle, as scripts in numpy save it."""
    filled = np.full(4, value)
    return pickle.dumps(
        {**counted(epoch, step), "params": filled, "optimizer": {"m": filled, "v": filled}, "rng": (3, (1, 2), None)}
    )


@lru_cache(maxsize=1024)
def pickle_values(value=0.5):
    """Results in a plain pickle: predictions of a batch."""
    return pickle.dumps({"ids": [1, 2, 3], "predictions": [value] * 3})


@lru_cache(maxsize=1024)
def estimator(value=0.5):
    """A fitted estimator, as scikit-learn's models are pickled and dumped by joblib."""
    attributes = (("alpha", value), ("coef_", [value, value]), ("intercept_", value), ("n_features_in_", 2))
    opcodes = Opcodes().write(Instance("sklearn.linear_model._ridge", "Ridge", attributes))
    return bytes(opcodes.out + b".")


def keras_archive(epoch=None, step=None, *, value=0.5):
    """Keras 3's `.keras`: a zip archive of metadata, configuration and the variables in HDF5."""
    entries = {
        "metadata.json": json_text({"keras_version": "3.10.0", "date_saved": "2026-11-20@12:00:00"}),
        "config.json": json_text({"module": "keras", "class_name": "Sequential", "config": {}}),
        "model.weights.h5": h5_keras_state(epoch, step, value=value),
    }
    return stored_zip(entries)


# what lies beside


def json_text(value):
    return json.dumps(value, indent=1).encode()


def trainer_state(step, epoch=None):
    """`trainer_state.json` of Hugging Face's Trainer."""
    return json_text({"best_model_checkpoint": None, "epoch": epoch or step / 100, "global_step": step})


def text(*lines):
    return "".join(f"{line}\n" for line in lines).encode()


@cache
def png():
    """An image of one pixel."""
    head = struct.pack(">2I5B", 1, 1, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0\0")), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


@cache
def parquet():
    """What begins and ends like Apache Parquet; no reader here looks further."""
    return b"PAR1" + bytes(range(64)) + struct.pack("<I", 16) + b"PAR1"


@lru_cache(maxsize=1024)
def tokens(seed=0):
    """Token ids of 16 bits, as a tokenized corpus is saved."""
    return b"".join(struct.pack("<H", (seed * 7919 + at * 31) % 50_257) for at in range(64))


def cut(data):
    """The beginning of a file whose writer was killed."""
    return data[: len(data) * 2 // 3]
