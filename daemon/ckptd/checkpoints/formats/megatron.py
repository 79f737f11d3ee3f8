"""Megatron-LM: `iter_NNNNNNN/` (or `release/`) beside `latest_checkpointed_iteration.txt`, which is written last.

Classic: `mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt` for each tensor, pipeline and expert rank, and `distrib_optim.pt`
where the optimizer is distributed. torch_dist: `metadata.json` names the backend, `common.pt` holds what all ranks
share, the rest is a directory of torch.distributed.checkpoint.
Source: Megatron-LM's megatron/training/checkpointing.py and megatron/core/dist_checkpointing.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_names import NameFacts, parse_name
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts, check_all, examine_parts
from ckptd.checkpoints.formats.directory_claims import claim_directory, point_out_newest, read_marker
from ckptd.checkpoints.formats.encodings.pickle_values import Opaque
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.formats.torch_dcp import METADATA, check_dcp, is_dcp
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

TRACKER = "latest_checkpointed_iteration.txt"
_RELEASE = "release"  # in the place of an iteration, of a model that was converted
_ITERATION = re.compile(r"iter_(\d{1,18})")
_RANK = re.compile(r"mp_rank_(\d+)(?:_(\d+))?(?:_(\d+))?")
_MODEL_NAMES = ("model_optim_rng.pt", "model_rng.pt")
_OPTIMIZER_NAME = "distrib_optim.pt"  # saved for each rank by the first of its data-parallel group


class Megatron:
    name = "megatron"
    role_unread = roles.TRAINING_STATE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        claims = [
            claim_directory(self.name, child, _read_name(child.name))
            for child in directory.directories.values()
            if is_distributed(child) or _is_classic(child)
        ]
        if not claims:
            return
        marker = directory.files.get(TRACKER)
        word = read_marker(directory, reader, TRACKER)
        if word and word.isdecimal() and len(word) < 18:
            word = f"iter_{int(word):07d}"
        yield from point_out_newest(claims, directory, marker, word)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        parts = CheckpointParts.of(claim, reader, level)
        is_classic = any(_RANK.fullmatch(name) for name in parts.directories)
        parts.findings.signs.counts_progress = False  # its exports have an iteration, too
        check = _check_classic if is_classic else check_distributed
        return examine_parts(parts, lambda: check(parts), self.role_unread)


def _read_name(name: str) -> NameFacts:
    match = _ITERATION.fullmatch(name)
    return NameFacts(step=int(match[1])) if match else parse_name(name)


def _is_classic(directory: Directory) -> bool:
    """Return, by names alone, whether it is classic; users' programs have `mp_rank_00` directories with other files."""
    ranks = [child for name, child in directory.directories.items() if _RANK.fullmatch(name)]
    if any(name in child.files for child in ranks for name in (*_MODEL_NAMES, _OPTIMIZER_NAME)):
        return True
    is_named = bool(_ITERATION.fullmatch(directory.name)) or directory.name == _RELEASE
    return is_named and any(not child.files or any(file.endswith(".pt") for file in child.files) for child in ranks)


def is_distributed(directory: Directory) -> bool:
    """Return, by names alone, whether the torch_dist backend wrote a directory."""
    has_shards = is_dcp(directory) or METADATA in directory.files
    if _ITERATION.fullmatch(directory.name) and has_shards:
        return True
    return "common.pt" in directory.files and (has_shards or "metadata.json" in directory.files)


def check_distributed(parts: CheckpointParts) -> None:
    """Check a torch_dist directory; one of fsdp_dtensor has neither `metadata.json` nor `common.pt`."""
    has_common = "common.pt" in parts.files or "metadata.json" in parts.files
    checks = [lambda: _check_common(parts)] if has_common else []
    check_all([*checks, lambda: _check_shards(parts)])


def _check_common(parts: CheckpointParts) -> None:
    with parts.torch("common.pt") as archive:
        parts.findings.add_facts(archive.state, archive.number)
        parts.findings.add_role_signs(archive.state, archive.number)


def _check_shards(parts: CheckpointParts) -> None:
    if "common.pt" in parts.files or "metadata.json" in parts.files:
        backend = parts.read_json("metadata.json").get("sharded_backend")
        if backend != "torch_dist":
            parts.findings.doubt = f"its shards are written by {backend!r}, which is not read here"
            return
    check_dcp(parts)


def _check_classic(parts: CheckpointParts) -> None:
    """Check the directories of all ranks: each has what its siblings have, and none is missing."""
    ranks = sorted(name for name in parts.directories if _RANK.fullmatch(name))
    holders: dict[str, set[str]] = defaultdict(set)
    iterations: dict[str, int] = {}
    arguments: list[Any] = []

    def check(rank: str, name: str) -> None:
        with parts.below(rank).torch(name) as archive:
            if name in _MODEL_NAMES:
                parts.findings.add_facts(archive.state, archive.number)
                parts.findings.add_role_signs(archive.state, archive.number)
                state = archive.state if isinstance(archive.state, dict) else {}
                arguments.append(state.get("args"))
                if type(state.get("iteration")) is int:
                    iterations[rank] = state["iteration"]

    for rank in ranks:
        for name in parts.below(rank).names:
            holders[name].add(rank)
    parts.findings.signs.optimizer |= _OPTIMIZER_NAME in holders
    check_all(
        [
            *(lambda rank=rank, name=name: check(rank, name) for name in holders for rank in sorted(holders[name])),
            lambda: _check_ranks(parts, ranks, arguments),
            lambda: _check_alike(parts, ranks, holders, iterations),
        ]
    )


def _check_alike(
    parts: CheckpointParts, ranks: list[str], holders: dict[str, set[str]], iterations: dict[str, int]
) -> None:
    if not any(name in holders for name in _MODEL_NAMES):
        raise DamagedError(f"{ranks[0]}/{_MODEL_NAMES[0]} is missing")
    for name, having in holders.items():
        lost = set(ranks) - having
        if lost and name in {*_MODEL_NAMES, _OPTIMIZER_NAME}:
            raise DamagedError(f"{parts.place}{min(lost)}/{name} is missing (other ranks have it)")
    values = list(iterations.values())
    usual = max(values, key=lambda value: (values.count(value), value), default=None)
    for rank, value in iterations.items():
        if value != usual:
            raise DamagedError(f"{parts.place}{rank} is of iteration {value}, others of {usual}")


def _check_ranks(parts: CheckpointParts, ranks: list[str], arguments: list[Any]) -> None:
    """Check that every rank in the arguments of the run or in the names has a directory."""
    present = set(ranks)
    shape = [0, 0, 0]
    for rank in ranks:
        match = _RANK.fullmatch(rank)
        for place, number in enumerate(match.groups() if match else ()):
            shape[place] = max(shape[place], int(number) + 1 if number else 0)
    sizes = arguments[0].attributes if arguments and isinstance(arguments[0], Opaque) else {}
    declared = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "expert_model_parallel_size")
    for place, key in enumerate(declared):
        size = sizes.get(key)
        if type(size) is int and size > 0 and (shape[place] or size > 1) and place < 2:
            shape[place] = max(shape[place], size)
    # bounded by what is there: the first that is missing ends it
    for numbers in product(*(range(size) for size in shape if size)):
        name = "mp_rank_" + "_".join(f"{number:0{width}d}" for number, width in zip(numbers, (2, 3, 3), strict=False))
        if name not in present:
            raise DamagedError(
                f"{parts.place}{name} is missing ({' x '.join(str(size) for size in shape if size)} ranks saved)"
            )
