"""Leaves out the numbers of a found checkpoint that no record can hold and compare: files may claim any."""

import math
from dataclasses import replace
from typing import Any

from ckptd.core.model import Checkpoint, FileIdentity

LARGEST = 2**63 - 1  # what a database's whole number holds
_NUMBERS = ("epoch", "name_epoch", "goal_epoch")
_WHOLE_NUMBERS = ("step", "name_step", "goal_step", "continued_count", "continued_from_step")
_TOLD_BY_PARTS = ("continued_count", "continued_from_step", "computation")


def bound_numbers(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint with only such numbers as a record can hold and compare."""
    changed: dict[str, Any] = {}
    if checkpoint.parts:
        told = ((name, _first_told(checkpoint, name)) for name in _TOLD_BY_PARTS)
        changed = {name: value for name, value in told if value is not getattr(checkpoint, name)}
    for name in _NUMBERS:
        value = getattr(checkpoint, name)
        if value is not None and not _is_number(value):
            changed[name] = None
    for name in _WHOLE_NUMBERS:
        value = changed.get(name, getattr(checkpoint, name))
        if value is not None and abs(value) > LARGEST:
            changed[name] = None
    if checkpoint.size_bytes > LARGEST:
        changed["size_bytes"] = LARGEST
    if not all(map(_is_number, checkpoint.metrics.values())):
        changed["metrics"] = {name: value for name, value in checkpoint.metrics.items() if _is_number(value)}
    if not all(isinstance(each, FileIdentity) for each in checkpoint.identities):
        changed["identities"] = tuple(FileIdentity(*each) for each in checkpoint.identities)
    return replace(checkpoint, **changed) if changed else checkpoint


def _first_told(checkpoint: Checkpoint, name: str) -> Any:
    """Return a fact of a checkpoint, or else that of its first part that has it."""
    values = (getattr(each, name) for each in (checkpoint, *checkpoint.parts))
    return next((value for value in values if value is not None), None)


def _is_number(value: float) -> bool:
    try:
        return math.isfinite(float(value)) and abs(value) < 2**53  # beyond, a float is no longer exact
    except OverflowError:
        return False
