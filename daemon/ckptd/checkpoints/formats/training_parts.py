"""Checks the files that checkpoints of Hugging Face's Trainer and of Accelerate have in common.

These are the weights and the state of the optimizer: single files, shards with an index, directories of
torch.distributed.checkpoint (FSDP), a tag directory of DeepSpeed with its `latest`, or a directory for each model of
diffusers' scripts. Sources: accelerate's checkpointing.py and utils/fsdp_utils.py, transformers' trainer.py, diffusers'
examples (`save_model_hook`).
"""

import re
from collections.abc import Callable, Iterator
from functools import partial

from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts
from ckptd.checkpoints.formats.deepspeed import LATEST, check_deepspeed
from ckptd.checkpoints.formats.huggingface_shards import CONFIGURATIONS, ShardSet, check_shards, find_shard_sets
from ckptd.checkpoints.formats.interface import DamagedError
from ckptd.checkpoints.formats.safetensors import check_safetensors
from ckptd.checkpoints.formats.torch_dcp import METADATA, check_dcp

_TORCH_SUFFIXES = ("pt", "pth", "bin", "pkl")
_WEIGHTS = re.compile(
    r"(?:model|pytorch_model|adapter_model|diffusion_pytorch_model)(?:_\d+)?(?:\.\w+)?\.(?:safetensors|bin)"
    r"|pytorch_model_fsdp(?:_\d+)?(?:_rank\d+)?\.bin"
)
_PIPELINE_WEIGHTS = re.compile(  # of diffusers, in a directory for each model
    r"(?:\w+/)?(?:diffusion_pytorch_model|pytorch_lora_weights|learned_embeds)(?:\.\w+)?\.(?:safetensors|bin)"
)
_TEXT_ENCODER = re.compile(r"text_encoder(?:_\d+)?")
_OPTIMIZER = re.compile(r"optimizer(?:_\d+)?(?:_rank\d+)?\.(?:pt|bin)")
_WEIGHTS_DIRECTORY = re.compile(r"pytorch_model(?:_fsdp)?(?:_\d+)?")
_OPTIMIZER_DIRECTORY = re.compile(r"optimizer(?:_\d+)?")
_MARKER_LIMIT = 4096


def has_weights(parts: CheckpointParts) -> bool:
    """Return whether any file or directory has a name of model weights, complete or not."""
    return (
        any(_WEIGHTS.fullmatch(name) for name in parts.names)
        or any(_WEIGHTS_DIRECTORY.fullmatch(name) for name in parts.directories)
        or bool(find_shard_sets(parts.names))
        or bool(deepspeed_tags(parts))
        or any(_PIPELINE_WEIGHTS.fullmatch(name) for name in parts.files)
        or any(_find_model_shards(parts.below(directory)) for directory in parts.directories)
    )


def has_optimizer(parts: CheckpointParts) -> bool:
    """Return whether any file or directory has a name of an optimizer's state, complete or not."""
    return (
        any(_OPTIMIZER.fullmatch(name) for name in parts.names)
        or any(_OPTIMIZER_DIRECTORY.fullmatch(name) for name in parts.directories)
        or bool(deepspeed_tags(parts))
    )


def deepspeed_tags(parts: CheckpointParts) -> list[str]:
    """Return the names of the directories that DeepSpeed wrote, such as `global_step20`."""
    return sorted({name.partition("/")[0] for name in parts.files if name.endswith("_states.pt") and "/" in name})


def checks_of_parts(parts: CheckpointParts) -> Iterator[Callable[[], object]]:
    """Yield a check for each part that its framework cannot load if it is damaged."""
    sharded: set[str] = set()
    for found in find_shard_sets(parts.names):
        sharded |= found.files
        yield partial(check_shards, parts, found)
    for name in parts.names:
        check = None if name in sharded else _check_of_file(name)
        if check:
            yield partial(check, parts, name)
    tags = deepspeed_tags(parts)
    for directory in sorted(parts.directories):
        below = parts.below(directory)
        if METADATA in below.files or any(name.endswith(".distcp") for name in below.names):
            yield partial(check_dcp, below)
        elif directory in tags:
            yield partial(check_deepspeed, below)
        else:
            yield from _checks_of_model(below, is_text_encoder=bool(_TEXT_ENCODER.fullmatch(directory)))
    if tags:
        yield partial(_check_latest, parts, tags)


def _checks_of_model(below: CheckpointParts, *, is_text_encoder: bool) -> Iterator[Callable[[], object]]:
    """Yield a check for each file of one of diffusers' models, in a directory such as `unet`."""
    for found in find_shard_sets(below.names) if is_text_encoder else _find_model_shards(below):
        yield partial(check_shards, below, found)
    for name in below.names:
        is_model = _PIPELINE_WEIGHTS.fullmatch(name) or (is_text_encoder and _WEIGHTS.fullmatch(name))
        if is_model and (check := _check_of_file(name)):
            yield partial(check, below, name)


def _find_model_shards(below: CheckpointParts) -> list[ShardSet]:
    return [found for found in find_shard_sets(below.names) if _PIPELINE_WEIGHTS.fullmatch(found.name)]


def _check_of_file(name: str) -> Callable[[CheckpointParts, str], object] | None:
    suffix = name.rpartition(".")[2]
    if suffix == "safetensors":
        return check_safetensors
    if suffix in _TORCH_SUFFIXES:
        return CheckpointParts.check_torch_file
    return CheckpointParts.read_json if name in CONFIGURATIONS else None


def _check_latest(parts: CheckpointParts, tags: list[str]) -> None:
    """Check that `latest` names one of the tag directories beside it: DeepSpeed loads that one.

    Raises:
        DamagedError: it does not.

    """
    with parts.open(LATEST) as file:
        word = file.read(_MARKER_LIMIT).decode("utf-8", "surrogateescape").strip()
    if word not in tags:
        raise DamagedError(f"{parts.place}{LATEST} names {word!r}, which is missing")
