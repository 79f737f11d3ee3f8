"""Hugging Face models in several files: `NAME-0000i-of-0000n.safetensors` or `.bin`, and an index of their tensors.

The index `NAME.safetensors.index.json` (`pytorch_model.bin.index.json`) has `weight_map`: tensor name -> file name.
It is written last, and a loader reads nothing without it. Source: huggingface_hub's serialization/_base.py and
transformers' modeling_utils.py.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_names import NameFacts, parse_name
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts, check_all, examine_parts
from ckptd.checkpoints.formats.directory_claims import claim_directory
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape
from ckptd.checkpoints.formats.safetensors import check_safetensors
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.(?P<suffix>safetensors|bin)", re.DOTALL)
_INDEX = re.compile(r"(?P<stem>.+)\.(?P<suffix>safetensors|bin)\.index(?:\.(?P<variant>[^.]+))?\.json", re.DOTALL)
_WEIGHTS = frozenset({"safetensors", "bin", "pt", "pth", "ckpt", "h5", "msgpack"})
_NO_WEIGHTS = frozenset({"training_args.bin"})
CONFIGURATIONS = frozenset({"config.json", "adapter_config.json", "generation_config.json"})


@dataclass(slots=True)
class ShardSet:
    """The files of one sharded model in one directory. `name` is what it would be called in one file."""

    name: str
    shards: set[str] = field(default_factory=set)
    counts: set[int] = field(default_factory=set)
    index: str | None = None

    @property
    def files(self) -> set[str]:
        return self.shards | ({self.index} if self.index else set())


def find_shard_sets(names: Iterable[str]) -> list[ShardSet]:
    """Group the names of shards and indexes into sharded models."""
    sets: dict[str, ShardSet] = {}
    for name in names:
        if match := _SHARD.fullmatch(name):
            found = sets.setdefault(key := f"{match['stem']}.{match['suffix']}", ShardSet(key))
            found.shards.add(name)
            found.counts.add(int(match["count"]))
        elif match := _INDEX.fullmatch(name):
            variant = f".{match['variant']}" if match["variant"] else ""
            key = f"{match['stem']}{variant}.{match['suffix']}"
            sets.setdefault(key, ShardSet(key)).index = name
    return [sets[key] for key in sorted(sets)]


def check_shards(parts: CheckpointParts, shard_set: ShardSet) -> None:
    """Check that index and shards are there, hold together, and agree on which tensor lies where.

    Raises:
        DamagedError: one is missing or damaged.

    """
    tensors: dict[str, set[str]] = {}

    def check(name: str) -> None:
        if name.endswith(".safetensors"):
            tensors[name] = {tensor.name for tensor in check_safetensors(parts, name).tensors}
        else:
            with parts.torch(name) as archive:
                tensors[name] = set(archive.state) if isinstance(archive.state, dict) else set()

    check_all(
        [
            lambda: _check_count(parts, shard_set),
            *(lambda name=name: check(name) for name in sorted(shard_set.shards)),
            lambda: _check_index(parts, shard_set, tensors),
        ]
    )


def _check_count(parts: CheckpointParts, shard_set: ShardSet) -> None:
    """Check by the names that every shard of `-of-N` is there; bounded by what is there, the first missing ends it."""
    if len(shard_set.counts) > 1:
        raise DamagedError(
            f"{parts.place}{shard_set.name}: its shards are of different saves: {sorted(shard_set.counts)}"
        )
    present = {int(match["number"]) for name in shard_set.shards if (match := _SHARD.fullmatch(name))}
    for count in shard_set.counts:
        first = min(present)
        lost = next((number for number in range(min(first, 1), min(first, 1) + count) if number not in present), None)
        if lost is not None:
            stem, _, suffix = shard_set.name.rpartition(".")
            raise DamagedError(f"{parts.place}{stem}-{lost:05d}-of-{count:05d}.{suffix} is missing")


def _check_index(parts: CheckpointParts, shard_set: ShardSet, tensors: dict[str, set[str]]) -> None:
    if shard_set.index is None:
        if len(shard_set.shards) == 1:
            return  # torchtune writes none for one shard, which holds everything
        raise DamagedError(f"{parts.place}{shard_set.name}.index.json is missing")
    weights = parts.read_json(shard_set.index).get("weight_map")
    if not isinstance(weights, dict) or not weights:
        raise DamagedError(f"{parts.place}{shard_set.index}: it maps no tensors")
    wanted: dict[str, set[str]] = defaultdict(set)
    for tensor, name in weights.items():
        if not isinstance(name, str) or "/" in name:
            raise DamagedError(f"{parts.place}{shard_set.index}: it maps {tensor!r} to no file")
        wanted[name].add(tensor)
    for name, expected in wanted.items():
        parts.require(name, f"{shard_set.index} maps tensors to it")
        if lost := expected - tensors.get(name, expected):
            raise DamagedError(f"{parts.place}{name} does not hold {min(lost)!r}, which {shard_set.index} maps to it")


class HuggingFaceShards:
    name = "huggingface-shards"
    role_unread = roles.PARAMETERS_ONLY

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for child in directory.directories.values():
            if _is_one_model(child):
                yield claim_directory(self.name, child, _name_facts(child.name))
        for found in _sets_in(directory):
            files = [directory.files[name] for name in sorted(found.files)]
            said = _name_facts(directory.name)
            yield Claim(
                format=self.name,
                shape=Shape.SET,
                path=directory.join(found.name),
                files=tuple(files),
                name_epoch=said.epoch,
                name_step=said.step,
            )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        parts = CheckpointParts.of(claim, reader, level, role=self.role_unread)
        checks: list[Callable[[], object]] = [
            partial(check_shards, parts, found) for found in find_shard_sets(parts.names)
        ]
        checks += [partial(parts.read_json, name) for name in parts.names if name in CONFIGURATIONS]
        return examine_parts(parts, lambda: check_all(checks))


def _name_facts(name: str) -> NameFacts:
    """A model's directory may be called model-7b: only what is called an epoch or step, or checkpoint, counts."""
    return NameFacts() if re.match(r"(?i)model", name) else parse_name(name)


def _sets_in(directory: Directory) -> list[ShardSet]:
    candidates = (
        file.name for suffix in ("safetensors", "bin", "json") for file in directory.by_suffix.get(suffix, ())
    )
    return find_shard_sets(candidates)


def _is_one_model(directory: Directory) -> bool:
    """Return whether a directory holds a sharded model and no other weights, and is therefore one checkpoint."""
    sets = _sets_in(directory)
    if not sets or directory.directories:
        return False
    known = _NO_WEIGHTS.union(*(found.files for found in sets))
    return not any(
        file.name not in known
        for suffix in _WEIGHTS & directory.by_suffix.keys()
        for file in directory.by_suffix[suffix]
    )
