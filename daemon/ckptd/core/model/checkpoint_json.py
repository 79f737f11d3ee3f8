"""Checkpoints as JSON, for the agent's pipe and the database. What is decoded may come from hostile code."""

import functools
import operator
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from ckptd.core.model import Checkpoint, CheckpointState, FileIdentity, Grouping, Level, Role

# an enumeration's own lookup takes ten times as long
_STATES = {each.value: each for each in CheckpointState}
_LEVELS = {each.value: each for each in Level}
_ROLES = {each.value: each for each in Role}
_GROUPING = ("series", "progress", "evidence", "has_progress_word", "is_directory", "doubt")
_get_grouping = operator.attrgetter(*_GROUPING)
share_uids = functools.lru_cache(maxsize=1024)(frozenset[int])  # checkpoints of one owner share one set


def encode_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """Turn a checkpoint into JSON's types; bytes of names that are not UTF-8 stay as lone surrogates.

    What has its default is left out: a directory may have thousands of checkpoints.
    """
    data: dict[str, Any] = {
        "path": str(checkpoint.path),
        "format": checkpoint.format,
        "files": checkpoint.files,
        "identities": checkpoint.identities,
        "owner_uids": sorted(checkpoint.owner_uids),
        "size_bytes": checkpoint.size_bytes,
        "modified_at": checkpoint.modified_at.timestamp(),
        "state": checkpoint.state.value,
        "level": checkpoint.level.value,
        "role": checkpoint.role.value,
        "grouping": encode_grouping(checkpoint.grouping),
    }
    for name in _PLAIN:
        value = getattr(checkpoint, name)
        if value is not None:
            data[name] = value
    if checkpoint.role_evidence:
        data["role_evidence"] = checkpoint.role_evidence
    if checkpoint.is_result:
        data["is_result"] = True
    if checkpoint.metrics:
        data["metrics"] = dict(checkpoint.metrics)
    if checkpoint.unsafe:
        data["unsafe"] = checkpoint.unsafe
    if checkpoint.parts:
        data["parts"] = [encode_checkpoint(part) for part in checkpoint.parts]
    return data


def decode_checkpoint(data: dict[str, Any]) -> Checkpoint:
    """Build a checkpoint from its JSON types; a field that is null or missing has its default.

    Raises:
        KeyError, TypeError, ValueError: the data is not what `encode_checkpoint` makes.

    """
    told = {name: _OPTIONAL[name](value) for name, value in data.items() if value is not None and name in _OPTIONAL}
    return Checkpoint(
        path=PurePosixPath(data["path"]),
        format=str(data["format"]),
        files=tuple([str(file) for file in data["files"]]),
        identities=tuple([FileIdentity(*map(int, identity)) for identity in data["identities"]]),
        owner_uids=share_uids(tuple(map(int, data["owner_uids"]))),
        size_bytes=int(data["size_bytes"]),
        modified_at=datetime.fromtimestamp(float(data["modified_at"]), UTC),
        state=_STATES[data["state"]],
        level=_LEVELS[data["level"]],
        **told,
    )


def encode_grouping(grouping: Grouping) -> dict[str, Any]:
    """Turn a grouping into JSON's types, without the fields that have their defaults."""
    return {name: value for name, value in zip(_GROUPING, _get_grouping(grouping), strict=True) if value}


def decode_grouping(data: dict[str, Any]) -> Grouping:
    """Build the grouping again.

    Raises:
        KeyError, TypeError, ValueError: the data is not what `encode_grouping` makes.

    """
    return Grouping(
        series=str(data.get("series", "")),
        progress=tuple(int(number) for number in data.get("progress", ())),
        evidence=str(data.get("evidence", "")),
        has_progress_word=bool(data.get("has_progress_word")),
        is_directory=bool(data.get("is_directory")),
        doubt=None if data.get("doubt") is None else str(data["doubt"]),
    )


def _number(value: Any) -> float:
    """Keep whole numbers ints, as JSON does."""
    return int(value) if isinstance(value, int) else float(value)  # a truth value is an int, too


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "reason": str,
    "epoch": _number,
    "step": int,
    "name_epoch": _number,
    "name_step": int,
    "is_best": bool,
    "is_newest": bool,
    "is_listed": bool,
    "goal_epoch": _number,
    "goal_step": int,
    "content_epoch": _number,
    "content_step": int,
    "continued_count": int,
    "continued_from_step": int,
    "computation": str,
}  # null by default
_OPTIONAL: dict[str, Callable[[Any], Any]] = _PLAIN | {
    "metrics": lambda metrics: {str(name): float(value) for name, value in metrics.items()},
    "unsafe": lambda names: tuple(map(str, names)),
    "role": _ROLES.__getitem__,
    "role_evidence": str,
    "is_result": bool,
    "grouping": decode_grouping,
    "parts": lambda parts: tuple(map(decode_checkpoint, parts)),
}


def _or_none(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else decode(value)


# of each field that is one value, as it is sent: null where there is none
FIELD_DECODERS: dict[str, Callable[[Any], Any]] = {
    "format": str,
    "state": _STATES.__getitem__,
    "level": _LEVELS.__getitem__,
    **{name: _OPTIONAL[name] for name in ("role", "role_evidence", "is_result")},
    **{name: _or_none(decode) for name, decode in _PLAIN.items()},
}
