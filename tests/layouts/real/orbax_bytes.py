"""Directories of arrays as Orbax and T5X write them, by hand and uncompressed."""

import numpy as np

from support import checkpoint_bytes as made


def _tree(save):
    """The arrays of a state, by their dotted names."""
    filled = np.full(4, 0.5, dtype="<f4")
    params = {"params.Dense_0.bias": filled, "params.Dense_0.kernel": filled}
    moments = {"opt_state.0.mu.Dense_0.bias": filled, "opt_state.0.nu.Dense_0.bias": filled}
    return {"step": np.array(save.s, dtype="<i8"), **params, **moments}


def zarr(arrays):
    """Uncompressed arrays of zarr's version 2, as Orbax and T5X write them, each with one chunk."""
    files = {}
    for name, array in arrays.items():
        shape = list(array.shape)
        about = {"chunks": shape, "shape": shape, "dtype": array.dtype.str, "compressor": None, "filters": None}
        rest = {"dimension_separator": ".", "fill_value": None, "order": "C", "zarr_format": 2}
        files[f"{name}/.zarray"] = made.json_text({**about, **rest})
        files[f"{name}/0"] = array.tobytes()
    return files


def orbax_item(save):
    """One tree of Orbax without OCDBT."""
    arrays = _tree(save)
    described = {
        str(tuple(name.split("."))): {
            "key_metadata": [{"key": key, "key_type": 2} for key in name.split(".")],
            "value_metadata": {"value_type": "jax.Array", "skip_deserialize": False},
        }
        for name in arrays
    }
    metadata = {"tree_metadata": described, "use_ocdbt": False, "use_zarr3": False}
    return {"_METADATA": made.json_text(metadata), "commit_success.txt": b"done", **zarr(arrays)}


def orbax_root(save):
    """A step that is one tree."""
    handler = "orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler"
    return {"_CHECKPOINT_METADATA": _step_metadata(handler), **orbax_item(save)}


def orbax_step(item="state", iterator="data_iter"):
    """A step of several items: the state, where the data are read, and metrics."""
    tree, plain = "orbax.StandardCheckpointHandler", "orbax.JsonCheckpointHandler"

    def build(save):
        return {
            "_CHECKPOINT_METADATA": _step_metadata({item: tree, iterator: plain, "metrics": plain}),
            "commit_success.txt": b"done",
            f"{iterator}/metadata": made.json_text({"position": save.s}),
            "metrics/metrics": made.json_text({"loss": 1 / save.s}),
            **{f"{item}/{name}": data for name, data in orbax_item(save).items()},
        }

    return build


def _step_metadata(handlers):
    return made.json_text({"item_handlers": handlers, "init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2})


def msgpack(value):
    """A dictionary of short texts and small numbers in MessagePack."""
    if isinstance(value, dict):
        pairs = b"".join(msgpack(key) + msgpack(each) for key, each in value.items())
        return bytes([0x80 | len(value)]) + pairs
    if isinstance(value, str):
        return b"\xd9" + bytes([len(value)]) + value.encode()
    return b"\xcd" + value.to_bytes(2, "big")


def t5x(save):
    """A directory of T5X: the tree with places of arrays in MessagePack, and the arrays."""
    arrays = {
        "target.encoder.kernel": np.full(4, 0.5, dtype="<f4"),
        "state.param_states.encoder.kernel.m": np.full(4, 0.5, dtype="<f4"),
    }
    tree = {
        "version": 3,
        "optimizer": {
            "target": {"encoder": {"kernel": "PLACEHOLDER://target.encoder.kernel"}},
            "state": {"step": save.s, "param_states": {"encoder": {"kernel": {"m": "PLACEHOLDER://state.m"}}}},
        },
    }
    return {"checkpoint": msgpack(tree), **zarr(arrays)}
