"""Directories of torch.distributed.checkpoint, by hand: what `.metadata` places lies in the files of the ranks."""

from support import checkpoint_bytes as made
from support import torch_pickle

_DCP = "torch.distributed.checkpoint"


def dcp(*names, ranks=2, step=None):
    """A directory of torch.distributed.checkpoint: each rank has its half of every tensor; `step` names a number."""

    def build(save):
        files = {rank: bytearray() for rank in range(ranks)}
        described, placed = {}, {}
        for name in names or ("model.fc.weight", "optimizer.state.fc.weight.exp_avg"):
            places = [((2 * rank, 0), (2, 2)) for rank in range(ranks)]
            chunks = [_instance("metadata.ChunkStorageMetadata", offsets=at, sizes=size) for at, size in places]
            described[name] = _instance("metadata.TensorStorageMetadata", properties=None, size=(4, 2), chunks=chunks)
            for rank, (at, _) in enumerate(places):
                _place(placed, files[rank], rank, name, at, made.Tensor((2, 2), 1.0 + rank))
        if step is not None:
            described[step] = _instance("metadata.BytesStorageMetadata")
            _place(placed, files[0], 0, step, None, save.s)
        metadata = _instance("metadata.Metadata", state_dict_metadata=described, planner_data=None, storage_data=placed)
        pickle = bytes(torch_pickle.Opcodes().write(metadata).out + b".")
        return {".metadata": pickle, **{f"__{rank}_0.distcp": bytes(data) for rank, data in files.items()}}

    return build


def _place(placed, file, rank, name, at, value):
    data = made.torch_file(value)
    key = _instance("metadata.MetadataIndex", fqn=name, offset=at, index=rank)
    info = {"relative_path": f"__{rank}_0.distcp", "offset": len(file), "length": len(data)}
    placed[key] = _instance("filesystem._StorageInfo", **info, transform_descriptors=None)
    file += data


class _Keyed(torch_pickle.Instance):
    """An object that is a key of a dictionary, whatever its attributes are."""

    __hash__ = object.__hash__


torch_pickle.WRITERS[_Keyed] = torch_pickle.Opcodes.instance


def _instance(name, **attributes):
    module, _, name = name.rpartition(".")
    return _Keyed(f"{_DCP}.{module}", name, tuple(attributes.items()))
