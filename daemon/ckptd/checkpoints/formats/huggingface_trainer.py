"""Hugging Face's Trainer: a directory `checkpoint-STEP`, of which `trainer_state.json` is written last.

Before it come the weights, then optimizer, scheduler and the random states, unless only the model is saved. Older
versions stage all of it in `tmp-checkpoint-STEP`. Source: transformers' trainer.py (`_save_checkpoint`) and
trainer_callback.py (`TrainerState`).
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ckptd.checkpoints.formats import facts, roles
from ckptd.checkpoints.formats.accelerate import is_accelerate
from ckptd.checkpoints.formats.checkpoint_names import NameFacts, parse_name
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts, check_all, examine_parts
from ckptd.checkpoints.formats.directory_claims import claim_directory
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.formats.training_parts import checks_of_parts, has_optimizer, has_weights
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

STATE = "trainer_state.json"
_NAME = re.compile(r"(?P<temporary>tmp-)?checkpoint-(?P<step>\d{1,18})")
_TYPICAL = re.compile(
    r"trainer_state\.json|training_args\.bin|optimizer\.(?:pt|bin)|scheduler\.pt|rng_state(?:_\d+)?\.pth|config\.json"
    r"|adapter_config\.json|(?:model|adapter_model|pytorch_model).*\.(?:safetensors|bin|json)"
)
_TYPICAL_DIRECTORY = re.compile(r"global_step\d+|pytorch_model_fsdp_\d+|optimizer_\d+")
_ONLY_WITH_OPTIMIZER = re.compile(r"scheduler\.pt|rng_state(?:_\d+)?\.pth|scaler\.pt")
_METRIC = re.compile(r"(?:eval|train)_.+|loss")
_RANDOM = re.compile(r"rng_state(?:_(\d{1,9}))?\.pth")
_DURATION = re.compile(r"eval_.*(?:runtime|_per_second)")
_MOST_IDS = 16  # of evaluations
_NO_METRIC = re.compile(r".+(?:_runtime|_per_second|_steps)")


class HuggingFaceTrainer:
    name = "huggingface-trainer"
    role_unread = roles.TRAINING_STATE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for name, child in directory.directories.items():
            match = _NAME.fullmatch(name)
            if _is_of_others(child):
                continue
            if match and _looks_like_one(child):
                temporary = "it has the name of a save that did not finish" if match["temporary"] else None
                yield claim_directory(self.name, child, NameFacts(step=int(match["step"])), temporary=temporary)
            elif STATE in child.files and _holds_no_others(child):
                yield claim_directory(self.name, child, parse_name(name))

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        parts = CheckpointParts.of(claim, reader, level)
        parts.findings.role = roles.TRAINING_STATE if _is_training(parts) else roles.PARAMETERS_ONLY
        checks = [lambda: _check_state(parts), lambda: _check_presence(parts), *checks_of_parts(parts)]
        return examine_parts(parts, lambda: check_all(checks))


def _is_of_others(directory: Directory) -> bool:
    """Return whether a directory is Accelerate's or PaddleNLP's, which use the same names."""
    return is_accelerate(directory) or bool(directory.by_suffix.get("pdparams"))


def _looks_like_one(directory: Directory) -> bool:
    return any(_TYPICAL.fullmatch(name) for name in directory.files) or any(
        _TYPICAL_DIRECTORY.fullmatch(name) for name in directory.directories
    )


def _holds_no_others(directory: Directory) -> bool:
    """Return whether this is a renamed checkpoint and no output directory, which has a state of the Trainer, too."""
    has_training_state = any(_ONLY_WITH_OPTIMIZER.fullmatch(name) for name in directory.files)
    return has_training_state and not any(_NAME.fullmatch(name) for name in directory.directories)


def _is_training(parts: CheckpointParts) -> bool:
    """Return, by the names, whether a training can resume from it: the Trainer may save only the model."""
    return has_optimizer(parts) or any(_ONLY_WITH_OPTIMIZER.fullmatch(name) for name in parts.names)


def _check_state(parts: CheckpointParts) -> None:
    parts.require(STATE, "the Trainer writes it last")
    state = parts.read_json(STATE)
    found = parts.findings
    epoch, step = facts.plain_number(state.get("epoch")), facts.plain_number(state.get("global_step"))
    found.epoch = int(epoch) if epoch is not None and epoch == int(epoch) else epoch
    found.step = int(step) if step is not None else None
    found.goal_step = facts.find_facts(state).goal_step  # the epochs there are rounded up
    best = state.get("best_model_checkpoint")
    if isinstance(best, str) and best:
        found.best_paths.append(best.rstrip("/").rpartition("/")[2])
    found.metrics.update(_read_metrics(state))
    found.computation = _identify_evaluations(state)


def _read_metrics(state: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the last value of each metric that was logged."""
    history = state.get("log_history")
    for entry in history if isinstance(history, list) else ():
        for name, value in entry.items() if isinstance(entry, dict) else ():
            if _METRIC.fullmatch(name) and not _NO_METRIC.fullmatch(name):
                number = facts.plain_number(value)
                if number is not None:
                    yield name, float(number)


def _identify_evaluations(state: Mapping[str, Any]) -> str | None:
    """Return ids of the first evaluation and of the last ones, by how long they took: no two take the same time.

    A training that is continued keeps the log of what it loaded, so these ids say which checkpoint that was.
    """
    history = state.get("log_history")
    entries = [each for each in history if isinstance(each, dict)] if isinstance(history, list) else []
    ids = [_hash_entry(each) for each in entries if any(_DURATION.fullmatch(name) for name in each)]
    return " ".join(ids if len(ids) <= _MOST_IDS else [ids[0], *ids[1 - _MOST_IDS :]]) or None


def _hash_entry(entry: Mapping[str, Any]) -> str:
    durations = sorted((name, str(value)) for name, value in entry.items() if _DURATION.fullmatch(name))
    return "+" + hashlib.blake2b(repr((entry.get("step"), durations)).encode(), digest_size=4).hexdigest()


def _check_presence(parts: CheckpointParts) -> None:
    if not has_weights(parts):
        raise DamagedError("the model's weights are missing")
    training_state = [name for name in parts.names if _ONLY_WITH_OPTIMIZER.fullmatch(name)]
    if training_state and not has_optimizer(parts):
        parts.require("optimizer.pt", f"{training_state[0]} is there, so it was saved")
    if "optimizer.pt" in parts.files:
        parts.require("scheduler.pt", "without it the optimizer is not loaded")
    ranks = {int(match[1] or 0) for name in parts.names if (match := _RANDOM.fullmatch(name))}
    if not ranks and has_optimizer(parts):
        parts.require("rng_state.pth", "it is written behind the optimizer")
    for rank in range(min(ranks, default=0), max(ranks, default=0)):  # from the first of this node on
        if rank not in ranks:
            parts.require(f"rng_state_{rank}.pth", "ranks behind it have one")
