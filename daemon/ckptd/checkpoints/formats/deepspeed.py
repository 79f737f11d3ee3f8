"""DeepSpeed: a directory for each tag, and beside them `latest`, written last, which names one.

`[zero_pp_rank_R_]mp_rank_XX_model_states.pt` hold the model (for each data-parallel rank R with ZeRO-3) and the
user's state; `[bf16_]zero_pp_rank_R_mp_rank_XX_optim_states.pt` the optimizer's shards with ZeRO 1 to 3, without it
the model's file has the optimizer. Pipelines add `layer_LL-model_XX-model_states.pt`, experts
`layer_L_expert_E_mp_rank_XX_model_states.pt` and `expp_rank_R_mp_rank_XX_optim_states.pt`. A universal checkpoint
has `zero/PARAMETER/fp32.pt` instead of the shards.
Source: DeepSpeed's deepspeed/runtime/engine.py and deepspeed/runtime/pipe/module.py.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_names import parse_name
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts, check_all, examine_parts
from ckptd.checkpoints.formats.directory_claims import claim_directory, point_out_newest, read_marker
from ckptd.checkpoints.formats.encodings.pickle_values import Opaque
from ckptd.checkpoints.formats.encodings.torch_archive import TorchArchive
from ckptd.checkpoints.formats.encodings.torch_legacy import TorchLegacy
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

LATEST = "latest"
_LATEST_UNIVERSAL = "latest_universal"
_UNIVERSAL = "zero"
_MODEL = re.compile(r"(?:zero_pp_rank_(?P<rank>\d+)_)?mp_rank_(?P<model>\d+)_model_states\.pt")
_OPTIMIZER = re.compile(r"(?P<bf16>bf16_)?zero_pp_rank_(?P<rank>\d+)_mp_rank_(?P<model>\d+)_optim_states\.pt")
_LAYER = re.compile(r"layer_(?P<layer>\d+)-model_(?P<model>\d+)-model_states\.pt")
_EXPERT = re.compile(r"(?P<layer>(?:layer_\d+_)?)expert_(?P<expert>\d+)_mp_rank_(?P<model>\d+)_model_states\.pt")
_ANY = re.compile(r".+_(?:model|optim)_states\.pt|layer_\d+-model_\d+-model_states\.pt")
_WALK_LIMIT = 20_000
_SHARDED_STAGES = frozenset({1, 2, 3})  # of ZeRO, whose optimizer has files of its own


def is_deepspeed(directory: Directory) -> bool:
    """Return, by names alone, whether a directory is that of a tag."""
    return any(_ANY.fullmatch(file.name) for file in directory.by_suffix.get("pt", ()))


def check_deepspeed(parts: CheckpointParts) -> None:
    """Check the directory of one tag and take the facts of its model states.

    Raises:
        DamagedError: a rank's file is missing or damaged, or the ranks' files are of different steps.

    """
    said: dict[str, Mapping[Any, Any]] = {}
    _add_role_signs(parts)
    counts: dict[str, dict[str, int]] = {"global_steps": {}, "optimizer step": {}}

    def check(name: str) -> None:
        with parts.torch(name) as archive:
            state = archive.state if isinstance(archive.state, dict) else {}
            if _MODEL.fullmatch(name):
                said[name] = state
                parts.findings.add_facts(state, archive.number)
                parts.findings.add_role_signs(state, archive.number)
                if _stage(state) in _SHARDED_STAGES and not parts.findings.signs.optimizer:
                    parts.findings.role = parts.findings.role or roles.TRAINING_STATE
                _remember(counts["global_steps"], name, state.get("global_steps"))
            elif _OPTIMIZER.fullmatch(name):
                _remember(counts["optimizer step"], name, find_optimizer_step(archive))

    check_all(
        [
            *(lambda name=name: check(name) for name in parts.names if name.endswith(".pt")),
            lambda: _check_ranks(parts, said),
            *_checks_of_universal(parts),
            lambda: _check_experts(parts),
            *(lambda what=what, found=found: _check_same(parts, what, found) for what, found in counts.items()),
        ]
    )


def _add_role_signs(parts: CheckpointParts) -> None:
    """Add the signs of the role in the file names; model states have counters in exports, too."""
    signs = parts.findings.signs
    signs.counts_progress = False
    signs.optimizer |= _UNIVERSAL in parts.directories or any(name.endswith("_optim_states.pt") for name in parts.names)


def _remember(counts: dict[str, int], name: str, value: Any) -> None:
    if type(value) is int:
        counts[name] = value


def _check_same(parts: CheckpointParts, what: str, found: Mapping[str, int]) -> None:
    """Check that all files have the same step: all ranks step together, so another one is left from another save."""
    values = list(found.values())
    usual = max(values, key=lambda value: (values.count(value), value), default=None)
    for name, value in found.items():
        if value != usual:
            raise DamagedError(f"{parts.place}{name} is of {what} {value}, others of {usual}")


def _check_ranks(parts: CheckpointParts, said: Mapping[str, Mapping[Any, Any]]) -> None:
    """Check that the files of all ranks are there, as many as the model states say."""
    models = [match for name in parts.names if (match := _MODEL.fullmatch(name))]
    optimizers = [match for name in parts.names if (match := _OPTIMIZER.fullmatch(name))]
    if not models:
        raise DamagedError(f"{parts.place}mp_rank_00_model_states.pt is missing")
    state = next(iter(said.values()), {})
    stage = _stage(state)
    model_ranks = max(_count(state.get("mp_world_size")), 1 + max(int(match["model"]) for match in models))
    ranks = max([_count(state.get("dp_world_size")), *(1 + int(match["rank"]) for match in optimizers)])
    shards_model = stage == 3 or any(match["rank"] for match in models)
    for rank in range(ranks if shards_model else 1):
        prefix = f"zero_pp_rank_{rank}_" if shards_model else ""
        for model in range(model_ranks):
            parts.require(f"{prefix}mp_rank_{model:02d}_model_states.pt", f"{ranks} x {model_ranks} ranks saved")
    if _UNIVERSAL in parts.directories:
        return  # the optimizer's state lies there, by parameters
    if optimizers or stage in _SHARDED_STAGES:
        is_bf16 = optimizers[0]["bf16"] if optimizers else _entry(state, "ds_config", "bf16", "enabled") is True
        for rank in range(ranks):
            for model in range(model_ranks):
                name = f"{'bf16_' if is_bf16 else ''}zero_pp_rank_{rank}_mp_rank_{model:02d}_optim_states.pt"
                parts.require(name, f"{ranks} x {model_ranks} ranks saved")


def _checks_of_universal(parts: CheckpointParts) -> Iterator[Callable[[], object]]:
    """Yield the checks of a universal checkpoint, which has a directory with the same files for each parameter."""
    below = parts.below(_UNIVERSAL)
    for directory in sorted(below.directories):
        parameter = below.below(directory)
        yield partial(parameter.require, "fp32.pt", "every parameter has one")
        for name in parameter.names:
            if name.endswith(".pt"):
                yield partial(parameter.check_torch_file, name)


def _check_experts(parts: CheckpointParts) -> None:
    """Check that the layers of a pipeline have all their slices, and the layers of experts all their experts."""
    slices: dict[str, set[int]] = defaultdict(set)
    experts: dict[str, set[int]] = defaultdict(set)
    for name in parts.names:
        if match := _LAYER.fullmatch(name):
            slices[match["layer"]].add(int(match["model"]))
        elif match := _EXPERT.fullmatch(name):
            experts[match["layer"] + f"expert_*_mp_rank_{match['model']}"].add(int(match["expert"]))
    for kind, groups in (("slice", slices), ("expert", experts)):
        last = max((max(found) for found in groups.values()), default=0)
        for group, found in groups.items():
            if len(found) != last + 1:
                lost = next(number for number in range(last + 1) if number not in found)
                raise DamagedError(f"{parts.place}{kind} {lost} of layer {group.strip('_')} is missing")


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 1


def _stage(state: Any) -> Any:
    return _entry(state, "ds_config", "zero_optimization", "stage")


def _entry(state: Any, *keys: str) -> Any:
    for key in keys:
        state = state.get(key) if isinstance(state, dict) else None
    return state


def find_optimizer_step(archive: TorchArchive | TorchLegacy) -> int | None:
    """Return how often an optimizer has stepped, from the `step` of its parameters or groups, however deep they lie."""
    pending, seen, found = [archive.state], set[int](), None
    for _ in range(_WALK_LIMIT):
        if not pending:
            break
        value = pending.pop()
        if isinstance(value, Opaque):
            value = value.attributes
        if isinstance(value, dict) and id(value) not in seen:
            step = archive.number(value.get("step"))
            if step is not None and step == int(step):
                found = max(found or 0, int(step))
            pending.extend(list(value.values())[:_WALK_LIMIT])
        elif isinstance(value, (list, tuple)) and id(value) not in seen:
            pending.extend(value[:_WALK_LIMIT])
        seen.add(id(value))
    return found


class DeepSpeed:
    name = "deepspeed"
    role_unread = roles.TRAINING_STATE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        claims = [
            claim_directory(self.name, child, parse_name(child.name))
            for child in directory.directories.values()
            if is_deepspeed(child)
        ]
        if claims:
            for name in (LATEST, _LATEST_UNIVERSAL):
                marker = directory.files.get(name)
                claims = point_out_newest(claims, directory, marker, read_marker(directory, reader, name))
        yield from claims

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        parts = CheckpointParts.of(claim, reader, level)
        return examine_parts(parts, lambda: check_deepspeed(parts), self.role_unread)
