"""Finds epoch, step and metric values in a state that was read from a checkpoint, by the names people give to them.

Parameters, optimizer and scheduler states are not searched: their `step` counts something else. The walk is
bounded in width and depth, because a hostile state may share or contain itself.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from ckptd.checkpoints.formats.encodings.pickle_values import Opaque
from ckptd.checkpoints.formats.interface import DamagedError, Examination
from ckptd.checkpoints.formats.roles import RoleEvidence
from ckptd.core.model import CheckpointState

Keys = dict[str, None]  # names in their order of precedence

_EPOCH_KEYS = dict.fromkeys(
    (
        "epoch",
        "current_epoch",
        "cur_epoch",
        "epochs_run",
        "epoch_num",
        "epoch_idx",
        "epochs_completed",
        "n_epoch",
    )
)
_EPOCH_KEYS_LATE = dict.fromkeys(("last_epoch", "epochs", "num_epochs", "start_epoch"))
_STEP_KEYS = dict.fromkeys(
    (
        "global_step",
        "global_steps",
        "step",
        "iteration",
        "steps",
        "iter",
        "it",
        "iter_num",
        "current_iteration",
        "current_step",
        "global_iter",
        "num_updates",
        "train_steps",
        "trained_steps",
        "total_steps",
        "n_iter",
        "num_steps",
        "iterations",
        "num_iterations",
        "step_count",
        "batch_idx_train",
        "istep",
        "nstep",
        "niter",
        "timestep",
        "time_step",
        "generation",
        "gen",
        "t",
    )
)
_BEST_PATH_KEYS = ("best_model_checkpoint", "best_model_path", "best_checkpoint")
_IS_BEST_KEYS = ("is_best",)
# names of a training's goal, in order of precedence; `epochs` alone may also be its progress
_GOAL_STEP_KEYS = dict.fromkeys(
    ("max_steps", "max_iters", "max_iter", "train_iters", "max_train_steps", "num_training_steps")
)
_GOAL_EPOCH_KEYS = dict.fromkeys(("max_epochs", "num_train_epochs", "max_epoch", "total_epochs"))
_SETTING_STEP_KEYS = _GOAL_STEP_KEYS | dict.fromkeys(("total_steps", "total_iters", "total_iterations", "train_steps"))
_SETTING_EPOCH_KEYS = _GOAL_EPOCH_KEYS | dict.fromkeys(("num_epochs", "n_epochs", "epochs"))
_ALL_GOAL_KEYS = frozenset({*_SETTING_STEP_KEYS, *_SETTING_EPOCH_KEYS})
_SETTINGS = re.compile(
    r"(?:train(?:ing|er)?_)?(?:args|arguments|config|cfg|options|opts?|hparams|hyper_?param(?:eter)?s|params)"
)
_METRIC = re.compile(
    r"(?:^|[_/.\-\s])(?:loss|losses|acc1?|acc5|accuracy|top1|top5|metric|score|f1|auc|roc|bleu|rouge|ppl|perplexity|wer|cer|iou|miou"
    r"|m?ap|mae|mse|rmse|r2|error|err|reward|return|fitness|energy|psnr|ssim|fid|dice|precision|recall|bpb|bpc)\d*(?:$|[_/.\-\s])"
)
_NO_METRIC = re.compile(r"scale|scaler|weight|coef|fn|type|name|smoothing|config")
_NOT_STATE = re.compile(
    r"optim|sched|state_dict|^model|^module|^net(?:work)?$|weights|params|parameters|scaler|rng|random|callbacks|loops|^ema|amp"
    r"|^args$|hparams|hyper_param|config|^cfg$|options"
)
_WIDTH = 2_000
_DEPTH = 3
_HOLDERS = (dict, Opaque)

Number = Callable[[Any], float | int | None]
Entries = Sequence[tuple[str, Any]]


class StateFacts(NamedTuple):
    """The facts that a state contains; None for those that it does not contain."""

    epoch: float | None = None
    step: int | None = None
    metrics: Mapping[str, float] = {}
    best_path: str | None = None
    is_best: bool | None = None
    goal_epoch: float | None = None
    goal_step: int | None = None


def plain_number(value: Any) -> float | int | None:
    """Return the value if it is a finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if abs(value) < 1 << 63 else None


def find_facts(value: Any, number: Number = plain_number) -> StateFacts:
    """Find epoch, step and metrics in a state; values nearer to its top win.

    `number` converts a value of the format, such as a tensor of one element, to a number.
    """
    found: dict[str, Any] = {}
    metrics: dict[str, float] = {}
    texts: dict[str, str] = {}
    flags: dict[str, bool] = {}
    top = _entries(value)
    for name, item in _walk(top, value):
        if isinstance(item, str):
            texts.setdefault(name, item)
        elif isinstance(item, bool):
            flags.setdefault(name, item)
        elif (as_number := number(item)) is not None:
            found.setdefault(name.lower(), as_number)
            if _is_metric(name) and len(metrics) < 64:
                metrics.setdefault(name, float(as_number))
    epoch = _first(found, _EPOCH_KEYS)
    epoch = _first(found, _EPOCH_KEYS_LATE) if epoch is None else epoch
    step = _first(found, _STEP_KEYS)
    step = _find_fairseq_step(top, number) if step is None else step
    goal_epoch, goal_step = _find_goal(top, number)
    best_path = next((texts[key] for key in _BEST_PATH_KEYS if texts.get(key)), None) if texts else None
    return StateFacts(
        epoch=int(epoch) if epoch is not None and epoch == int(epoch) else epoch,
        step=int(step) if step is not None and step == int(step) else None,
        metrics=metrics,
        best_path=best_path.rstrip("/").rpartition("/")[2] if best_path else None,
        is_best=next((flags[key] for key in _IS_BEST_KEYS if key in flags), None) if flags else None,
        goal_epoch=_beyond(goal_epoch, epoch),
        goal_step=None if (goal := _beyond(goal_step, step)) is None else int(goal),
    )


def _find_fairseq_step(top: Entries, number: Number) -> float | int | None:
    """Return the number of updates in the last entry of `optimizer_history` (fairseq/trainer.py)."""
    history = next((item for name, item in top if name == "optimizer_history"), None)
    if not isinstance(history, list) or not history:
        return None
    updates = next((item for name, item in _entries(history[-1]) if name == "num_updates"), None)
    return number(updates)


def _find_goal(top: Entries, number: Number) -> tuple[float | int | None, float | int | None]:
    """Return the epochs and steps at which a training ends, from its state or the settings in it."""
    goals: dict[str, float | int] = {}
    settings: dict[str, float | int] = {}
    for name, item in top:
        if isinstance(item, _HOLDERS) and _SETTINGS.fullmatch(name.lower()):
            _add_numbers(settings, _entries(item), number)
    _add_numbers(goals, top, number)
    if not goals and not settings:
        return None, None
    epoch, step = _first(goals, _GOAL_EPOCH_KEYS), _first(goals, _GOAL_STEP_KEYS)
    return (
        _first(settings, _SETTING_EPOCH_KEYS) if epoch is None else epoch,
        _first(settings, _SETTING_STEP_KEYS) if step is None else step,
    )


def _add_numbers(found: dict[str, float | int], entries: Entries, number: Number) -> None:
    for name, item in entries:
        if (lower := name.lower()) in _ALL_GOAL_KEYS and (as_number := number(item)) is not None:
            found.setdefault(lower, as_number)


def _beyond(goal: float | None, reached: float | None) -> float | None:
    """Return a goal if it is plausible: above 0, and not below what was reached."""
    return goal if goal is not None and goal > 0 and (reached is None or goal >= reached) else None


def _first(found: Mapping[str, float | int], keys: Keys) -> float | int | None:
    if not keys.keys().isdisjoint(found):  # most states have a few numbers, and there are many keys
        for key in keys:
            if key in found and found[key] >= 0:
                return found[key]
    return None


@lru_cache(maxsize=4096)
def _is_metric(name: str) -> bool:  # of at most 128 characters, as `_named` returns them
    lower = name.lower()
    return bool(_METRIC.search(lower)) and not _NO_METRIC.search(lower)


def _walk(top: Entries, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield named leaves, breadth first, of a value with these entries."""
    level: list[Any] = [value]
    seen: set[int] = set()
    for _ in range(_DEPTH):
        deeper: list[Any] = []
        for holder in level:
            if id(holder) in seen:
                continue
            seen.add(id(holder))
            for key, item in (top if holder is value else _entries(holder))[:_WIDTH]:
                yield key, item
                is_holder = isinstance(item, _HOLDERS) and len(deeper) < _WIDTH
                if is_holder and not _NOT_STATE.search(key.lower()):
                    deeper.append(item)
        if not deeper:
            return
        level = deeper


def _entries(holder: Any) -> Entries:
    if isinstance(holder, Opaque):
        return [*_named(holder.attributes), *_named(holder.entries or {})]
    return _named(holder) if isinstance(holder, dict) else ()


def _named(mapping: dict[Any, Any]) -> list[tuple[str, Any]]:
    first = islice(mapping.items(), _WIDTH)
    return [(key, item) for key, item in first if isinstance(key, str) and len(key) <= 128]


def examine_state(
    facts: StateFacts, role: RoleEvidence, unsafe: tuple[str, ...], check: Callable[[], bool | None] = lambda: None
) -> Examination:
    """Return the facts and the role of a state, with the result of `check` for the data around it.

    `check` returns whether a checksum covered every byte. If it finds damage, the facts of the state are kept.
    """
    state, reason, has_checksum = CheckpointState.COMPLETE, None, False
    try:
        has_checksum = bool(check())
    except DamagedError as error:
        state, reason = CheckpointState.DAMAGED, str(error)
    return Examination(
        state=state,
        reason=reason,
        epoch=facts.epoch,
        step=facts.step,
        metrics=facts.metrics,
        best_paths=(facts.best_path,) if facts.best_path else (),
        is_best=facts.is_best,
        goal_epoch=facts.goal_epoch,
        goal_step=facts.goal_step,
        unsafe=unsafe,
        has_checksum=has_checksum,
        role=role.role,
        role_evidence=role.evidence,
        is_result=role.is_result,
    )
