"""PyTorch Lightning: one torch archive with the trainer's state, or a directory where a strategy shards it.

The state has `pytorch-lightning_version`, `epoch`, `global_step` and `callbacks`, where a ModelCheckpoint with a
monitor holds `best_model_path` and scores. Names: `epoch=3-step=400.ckpt` with metrics, `last.ckpt` (also as a link),
`hpc_ckpt_N.ckpt` for Slurm requeues. With FSDP or model parallelism `NAME.ckpt/` is a directory of
torch.distributed.checkpoint plus `meta.pt`, with DeepSpeed it holds DeepSpeed's tag `checkpoint` and `latest`.
Source: Lightning's lightning/pytorch/callbacks/model_checkpoint.py and lightning/pytorch/strategies.
"""

import re
from collections.abc import Iterator
from typing import Any

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_names import claim_file, parse_name
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts, check_all, examine_parts, read_head
from ckptd.checkpoints.formats.deepspeed import LATEST, check_deepspeed, is_deepspeed
from ckptd.checkpoints.formats.directory_claims import claim_directory
from ckptd.checkpoints.formats.encodings.torch_archive import TorchArchive
from ckptd.checkpoints.formats.encodings.torch_legacy import TorchLegacy
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape
from ckptd.checkpoints.formats.torch_dcp import METADATA, check_dcp, is_dcp
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import NAME_MAX, Directory
from ckptd.core.model import Level

_VERSION_KEY = b"pytorch-lightning_version"
_NAME = re.compile(r"(?:.*[-_])?(?:epoch|step)=\d+(?:[-_].*)?\.ckpt|hpc_ckpt_\d+\.ckpt", re.DOTALL)
_HEAD_BYTES = 2048  # the key is the third that the trainer puts into its state
_META = "meta.pt"
_MAX_BEST = 64
_MAX_PATH = 2 * NAME_MAX + 1
_TAG = "checkpoint"
_TRAINING_KEYS = frozenset({"optimizer_states", "callbacks", "lr_schedulers"})  # never with `save_weights_only`


class Lightning:
    name = "lightning"
    role_unread = roles.TRAINING_STATE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        newest = directory.links.get("last.ckpt", "").rpartition("/")[2]
        for file in directory.by_suffix.get("ckpt", ()):
            if _NAME.fullmatch(file.name) or _VERSION_KEY in read_head(reader, file.path, _HEAD_BYTES):
                claim = claim_file(self.name, file)._replace(is_newest=file.name == newest or None)
                if marker := directory.files.get(_unfinished_marker(file.name)):
                    claim = claim._replace(in_progress=f"{marker.name} marks it as unfinished", markers=(marker,))
                yield claim._replace(name_step=None) if file.name.startswith("hpc_ckpt_") else claim  # counts requeues
        for name, child in directory.directories.items():
            if _is_sharded(child) or (
                name.endswith(".ckpt") and _TAG in child.directories and is_deepspeed(child.directories[_TAG])
            ):
                yield claim_directory(self.name, child, parse_name(name))

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        parts = CheckpointParts.of(claim, reader, level)
        parts.findings.signs.counts_progress = False  # the trainer counts in what has only the weights, too
        if claim.shape is Shape.FILE:
            return examine_parts(parts, lambda: _check_file(parts, claim.files[0].name), self.role_unread)
        if _TAG not in parts.directories:
            checks = [lambda: _check_file(parts, _META), lambda: check_dcp(parts)]
            return examine_parts(parts, lambda: check_all(checks), self.role_unread)
        return examine_parts(parts, lambda: _check_deepspeed(parts), self.role_unread)


def _unfinished_marker(name: str) -> str:
    """Return the file that NeMo 1 leaves beside a checkpoint while it writes it."""
    return f"{name.removesuffix('.ckpt').removesuffix('-EMA')}-unfinished"


def _is_sharded(directory: Directory) -> bool:
    if not is_dcp(directory) and METADATA not in directory.files:
        return False
    return _META in directory.files or bool(_NAME.fullmatch(directory.name)) or directory.name == "last.ckpt"


def _check_file(parts: CheckpointParts, name: str) -> None:
    with parts.torch(name) as archive:
        if not isinstance(archive.state, dict):
            raise DamagedError(f"{name} does not hold a trainer's state")
        parts.findings.add_facts(archive.state, archive.number)
        if _TRAINING_KEYS & archive.state.keys():
            parts.findings.role = roles.TRAINING_STATE
        parts.findings.add_role_signs(archive.state, archive.number)
        _add_callbacks(parts, archive, archive.state.get("callbacks"))


def _check_deepspeed(parts: CheckpointParts) -> None:
    parts.require(LATEST)
    check_deepspeed(parts.below(_TAG))


def _add_callbacks(parts: CheckpointParts, archive: TorchArchive | TorchLegacy, callbacks: Any) -> None:
    """Take the best checkpoint by each thing that is monitored, and the scores; without a monitor it is the last.

    Of the path, only its last directory is compared: the others may be those of another mount.
    """
    for state in callbacks.values() if isinstance(callbacks, dict) else ():
        monitor = state.get("monitor") if isinstance(state, dict) else None
        if not isinstance(monitor, str):
            continue
        score = archive.number(state.get("current_score"))
        if score is not None:
            parts.findings.metrics[monitor] = float(score)
        best = state.get("best_model_path")
        if isinstance(best, str) and best and len(parts.findings.best_paths) < _MAX_BEST:
            parts.findings.best_paths.append("/".join(best.rstrip("/").split("/")[-2:])[-_MAX_PATH:])
