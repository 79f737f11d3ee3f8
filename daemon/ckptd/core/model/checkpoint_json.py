"""Checkpoints as JSON, for the agent's pipe and the database. What is decoded may come from hostile code."""

from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from ckptd.core.model import Checkpoint, CheckpointState, FileIdentity, Grouping, Level, Role


def encode_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """Turn a checkpoint into JSON's types; bytes of names that are not UTF-8 stay as lone surrogates."""
    return {
        "path": str(checkpoint.path),
        "format": checkpoint.format,
        "files": list(checkpoint.files),
        "identities": [list(identity) for identity in checkpoint.identities],
        "owner_uids": sorted(checkpoint.owner_uids),
        "size_bytes": checkpoint.size_bytes,
        "modified_at": checkpoint.modified_at.timestamp(),
        "state": checkpoint.state.value,
        "reason": checkpoint.reason,
        "level": checkpoint.level.value,
        "epoch": checkpoint.epoch,
        "step": checkpoint.step,
        "name_epoch": checkpoint.name_epoch,
        "name_step": checkpoint.name_step,
        "is_best": checkpoint.is_best,
        "is_newest": checkpoint.is_newest,
        "is_listed": checkpoint.is_listed,
        "metrics": dict(checkpoint.metrics),
        "goal_epoch": checkpoint.goal_epoch,
        "goal_step": checkpoint.goal_step,
        "unsafe": list(checkpoint.unsafe),
        "content_epoch": checkpoint.content_epoch,
        "content_step": checkpoint.content_step,
        "role": checkpoint.role.value,
        "role_evidence": checkpoint.role_evidence,
        "is_result": checkpoint.is_result,
        "grouping": encode_grouping(checkpoint.grouping),
        "parts": [encode_checkpoint(part) for part in checkpoint.parts],
        "continued_count": checkpoint.continued_count,
        "continued_from_step": checkpoint.continued_from_step,
        "computation": checkpoint.computation,
    }


def decode_checkpoint(data: dict[str, Any]) -> Checkpoint:
    """Build a checkpoint from its JSON types.

    Raises:
        KeyError, TypeError, ValueError: the data is not what `encode_checkpoint` makes.

    """
    return Checkpoint(
        path=PurePosixPath(data["path"]),
        format=str(data["format"]),
        files=tuple(str(file) for file in data["files"]),
        identities=tuple(FileIdentity(*map(int, identity)) for identity in data["identities"]),
        owner_uids=frozenset(int(uid) for uid in data["owner_uids"]),
        size_bytes=int(data["size_bytes"]),
        modified_at=datetime.fromtimestamp(float(data["modified_at"]), UTC),
        state=CheckpointState(data["state"]),
        reason=_text(data["reason"]),
        level=Level(data["level"]),
        epoch=_number(data["epoch"]),
        step=None if data["step"] is None else int(data["step"]),
        name_epoch=_number(data["name_epoch"]),
        name_step=None if data["name_step"] is None else int(data["name_step"]),
        is_best=_truth(data["is_best"]),
        is_newest=_truth(data["is_newest"]),
        is_listed=_truth(data["is_listed"]),
        metrics={str(name): float(value) for name, value in data["metrics"].items()},
        goal_epoch=_number(data["goal_epoch"]),
        goal_step=None if data["goal_step"] is None else int(data["goal_step"]),
        unsafe=tuple(str(name) for name in data["unsafe"]),
        content_epoch=_number(data["content_epoch"]),
        content_step=None if data["content_step"] is None else int(data["content_step"]),
        role=Role(data["role"]),
        role_evidence=str(data["role_evidence"]),
        is_result=bool(data["is_result"]),
        grouping=decode_grouping(data["grouping"]),
        parts=tuple(decode_checkpoint(part) for part in data["parts"]),
        continued_count=None if data.get("continued_count") is None else int(data["continued_count"]),
        continued_from_step=None if data.get("continued_from_step") is None else int(data["continued_from_step"]),
        computation=_text(data.get("computation")),
    )


def encode_grouping(grouping: Grouping) -> dict[str, Any]:
    """Turn a grouping into JSON's types, without the fields that have their defaults."""
    fields: dict[str, Any] = {
        "series": grouping.series,
        "progress": list(grouping.progress),
        "evidence": grouping.evidence,
        "has_progress_word": grouping.has_progress_word,
        "is_directory": grouping.is_directory,
        "doubt": grouping.doubt,
    }
    return {name: value for name, value in fields.items() if value}


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
        doubt=_text(data.get("doubt")),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _truth(value: object) -> bool | None:
    return None if value is None else bool(value)


def _number(value: Any) -> float | None:
    """Keep whole numbers ints, as JSON does."""
    if value is None or isinstance(value, int):
        return value
    return float(value)
