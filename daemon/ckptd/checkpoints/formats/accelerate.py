"""Accelerate: a directory that `save_state` wrote, `checkpoint_N` where it numbers them itself; N counts saves.

In the order of writing: weights, `optimizer.bin`, `scheduler.bin`, samplers, `random_states_R.pkl` of each rank,
`custom_checkpoint_N.pkl` of registered objects, which may hold epoch and step. Source: accelerate's
accelerator.py (`save_state`) and checkpointing.py.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_names import NameFacts, parse_name
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts, check_all, examine_parts
from ckptd.checkpoints.formats.directory_claims import claim_directory
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.formats.training_parts import checks_of_parts, has_optimizer, has_weights
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

_NAME = re.compile(r"checkpoint_\d{1,18}")
_RANDOM = re.compile(r"random_states_(\d{1,9})\.pkl")
_CUSTOM = re.compile(r"custom_checkpoint_(\d{1,9})\.pkl")
_SCHEDULER = re.compile(r"scheduler(?:_\d+)?\.bin")
_NUMBERED = re.compile(r"(model|pytorch_model|optimizer|scheduler)_(\d+)\.(safetensors|bin)")
_TYPICAL = re.compile(
    r"(?:optimizer|scheduler|sampler|dl_state_dict)(?:_\d+)?\.bin|(?:model|pytorch_model)(?:_\d+)?\.(?:safetensors|bin)"
    r"|pytorch_model_fsdp(?:_\d+)?(?:_rank\d+)?\.bin"
)
_TYPICAL_DIRECTORY = re.compile(r"pytorch_model(?:_fsdp)?(?:_\d+)?")


class Accelerate:
    name = "accelerate"
    role_unread = roles.TRAINING_STATE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for name, child in directory.directories.items():
            is_numbered = bool(_NAME.fullmatch(name))
            if is_accelerate(child) or (is_numbered and _looks_like_one(child)):
                yield claim_directory(self.name, child, NameFacts() if is_numbered else parse_name(name))

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        parts = CheckpointParts.of(claim, reader, level)
        parts.findings.role = self.role_unread if _is_training(parts) else roles.PARAMETERS_ONLY
        custom = [partial(_add_custom_states, parts, name) for name in parts.names if _CUSTOM.fullmatch(name)]
        checks: list[Callable[[], object]] = [lambda: _check_presence(parts), *custom, *checks_of_parts(parts)]
        return examine_parts(parts, lambda: check_all(checks))


def is_accelerate(directory: Directory) -> bool:
    """Return whether there are files of random states with Accelerate's names, whatever the directory's name is."""
    return any(_RANDOM.fullmatch(file.name) for file in directory.by_suffix.get("pkl", ()))


def _looks_like_one(directory: Directory) -> bool:
    return any(_TYPICAL.fullmatch(name) for name in directory.files) or any(
        _TYPICAL_DIRECTORY.fullmatch(name) for name in directory.directories
    )


def _is_training(parts: CheckpointParts) -> bool:
    return has_optimizer(parts) or any(_RANDOM.fullmatch(name) for name in parts.names)


def _add_custom_states(parts: CheckpointParts, name: str) -> None:
    with parts.torch(name) as archive:
        parts.findings.add_facts(archive.state, archive.number)


def _check_presence(parts: CheckpointParts) -> None:
    if not has_weights(parts):
        raise DamagedError("the model's weights are missing")
    if any(_SCHEDULER.fullmatch(name) for name in parts.names) and not has_optimizer(parts):
        parts.require("optimizer.bin", "a scheduler is there, so it was saved")
    for stem, suffix in {(match[1], match[3]) for name in parts.names if (match := _NUMBERED.fullmatch(name))}:
        parts.require(f"{stem}.{suffix}", "others with higher numbers are there")
    for pattern, first, why in (
        (_RANDOM, "random_states_0.pkl", "every rank writes one behind weights and optimizer"),
        (_CUSTOM, None, "others with higher numbers are there"),
    ):
        numbers = {int(match[1]) for name in parts.names if (match := pattern.fullmatch(name))}
        if not numbers and first:
            parts.require(first, why)
        lost = next((number for number in range(len(numbers)) if number not in numbers), None)
        if lost is not None:
            stem = "random_states" if pattern is _RANDOM else "custom_checkpoint"
            parts.require(f"{stem}_{lost}.pkl", why)
