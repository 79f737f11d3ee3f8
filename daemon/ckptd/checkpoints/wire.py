"""Checkpoints and scans as JSON: all that crosses from a child, which hostile files may have subverted."""

from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from ckptd.core.model import Checkpoint, CheckpointState, FileIdentity, Level, Scan, Unknown


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
    }


def decode_checkpoint(data: dict[str, Any]) -> Checkpoint:
    """Build the checkpoint anew.

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
    )


def encode_scan(scan: Scan) -> dict[str, Any]:
    """Turn a scan into JSON's types."""
    return {
        "directory": str(scan.directory),
        "scanned_at": scan.scanned_at.timestamp(),
        "finished_at": None if scan.finished_at is None else scan.finished_at.timestamp(),
        "checkpoints": [encode_checkpoint(checkpoint) for checkpoint in scan.checkpoints],
        "problems": [[problem.what, problem.reason] for problem in scan.problems],
        "leftovers": list(scan.leftovers),
        "free_bytes": scan.free_bytes,
        "total_bytes": scan.total_bytes,
        "quota_left_bytes": scan.quota_left_bytes,
        "quota_trouble": scan.quota_trouble,
        "is_quota_read": scan.quota_read_at is not None,
        "filesystem_type": scan.filesystem_type,
        "markers": list(scan.markers),
    }


def decode_scan(data: dict[str, Any]) -> Scan:
    """Build the scan anew; a checkpoint outside its directory is refused.

    Raises:
        KeyError, TypeError, ValueError: the data is not what `encode_scan` makes.

    """
    directory = PurePosixPath(data["directory"])
    checkpoints = tuple(decode_checkpoint(each) for each in data["checkpoints"])
    for checkpoint in checkpoints:
        if not checkpoint.path.is_relative_to(directory) or ".." in checkpoint.path.parts:
            raise ValueError(f"{checkpoint.path} is not below {directory}")
    return Scan(
        directory=directory,
        scanned_at=datetime.fromtimestamp(float(data["scanned_at"]), UTC),
        checkpoints=checkpoints,
        problems=tuple(Unknown(what=str(what), reason=str(reason)) for what, reason in data["problems"]),
        leftovers=tuple(str(name) for name in data["leftovers"]),
        free_bytes=None if data["free_bytes"] is None else int(data["free_bytes"]),
        total_bytes=None if data["total_bytes"] is None else int(data["total_bytes"]),
        quota_left_bytes=None if data["quota_left_bytes"] is None else int(data["quota_left_bytes"]),
        quota_trouble=_text(data["quota_trouble"]),
        quota_read_at=datetime.fromtimestamp(float(data["scanned_at"]), UTC) if data["is_quota_read"] else None,
        filesystem_type=_text(data["filesystem_type"]),
        markers=tuple(str(name) for name in data["markers"]),
        finished_at=None if data["finished_at"] is None else datetime.fromtimestamp(float(data["finished_at"]), UTC),
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
