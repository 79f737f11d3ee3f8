"""Makes rows of checkpoints and reads them, without SQLAlchemy, so that commands read rows fast.

A row has the path relative to the directory of its run, and leaves out what follows from that run and from its other
columns. `packed_members`, `packed_details` and `packed_groupings` say how the rest is written.
"""

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ckptd.core.model import Checkpoint, Grouping, JobKey, Level, RecordedCheckpoint, Role
from ckptd.core.model.checkpoint_json import decode_checkpoint, encode_checkpoint
from ckptd.core.rows.packed_details import pack_details, unpack_details
from ckptd.core.rows.packed_groupings import pack_grouping, unpack_grouping
from ckptd.core.rows.packed_members import pack_members, unpack_members
from ckptd.core.rows.stored_comparisons import encode_comparisons
from ckptd.core.rows.stored_instants import instant
from ckptd.core.rows.text_escapes import decode_text, encode_text, share_text
from ckptd.core.rows.word_codes import LEVEL_CODES, ROLE_CODES, STATE_CODES

RECORD_FIELDS = tuple(field.name for field in fields(RecordedCheckpoint) if field.name not in {"checkpoint", "attempt"})
CONTENT_FIELDS = (
    "path", "format", "members", "details", "owner_uids", "size_bytes", "modified_at", "state", "role", "epoch", "step",
    "unsafe", "reason",
)  # fmt: skip
_LEVELS = {code: level for level, code in LEVEL_CODES.items()}
_ROLES = {code: role for role, code in ROLE_CODES.items()}
_STATES = {code: state for state, code in STATE_CODES.items()}
_CONTINUATION = ("continued_count", "continued_from_step", "computation")
_PLAIN_DETAILS = (
    "is_best", "is_newest", "is_listed", "goal_epoch", "goal_step", "role_evidence", "is_result", *_CONTINUATION,
)  # fmt: skip
_SAME = "="  # as the row's own epoch or step
_PROGRESS_DETAILS = {"name_epoch": "epoch", "content_epoch": "epoch", "name_step": "step", "content_step": "step"}
_get_record = attrgetter(*RECORD_FIELDS)
_get_plain = attrgetter(*_PLAIN_DETAILS)
_get_progress = attrgetter(*_PROGRESS_DETAILS)
_KEY_BYTES = 4
_SHORT_BYTES = 100  # of details; longer ones differ from row to row
_NO_METRICS: Mapping[str, float] = {}
_NO_GROUPING = Grouping()
_share_uids = functools.lru_cache(maxsize=4096)(frozenset[int])


class RowContext(NamedTuple):
    """What rows of checkpoints leave out, because all rows of a run have it alike."""

    directory: str
    uid: int


def shorten_path(path: str, directory: str) -> str:
    """Return a path relative to the directory of its run; one elsewhere stays absolute."""
    if path == directory:
        return "."
    return path.removeprefix(f"{directory}/") if directory.startswith("/") else path


def complete_path(path: str, directory: str) -> str:
    """Return the path that `shorten_path` shortened."""
    if path.startswith("/"):
        return path
    return directory if path == "." else f"{directory}/{path}"


def key_of_path(path: str) -> int:
    """Return the number that stands for a shortened path in the index; several paths may have the same."""
    digest = hashlib.blake2b(encode_text(path).encode(), digest_size=_KEY_BYTES).digest()
    return int.from_bytes(digest, "big", signed=True)


def checkpoint_to_row(recorded: RecordedCheckpoint, context: RowContext) -> dict[str, Any]:
    """Return the columns of a checkpoint of a run, except the numbers of other rows."""
    checkpoint = recorded.checkpoint
    path = shorten_path(str(checkpoint.path), context.directory)
    owner_uids = sorted(checkpoint.owner_uids)
    return dict(zip(RECORD_FIELDS, _get_record(recorded), strict=True)) | {
        "comparisons": encode_comparisons(recorded.comparisons),
        "path": path,
        "path_key": key_of_path(path),
        "format": checkpoint.format,
        "members": pack_members(
            checkpoint.path.name,
            checkpoint.files,
            checkpoint.identities,
            checkpoint.modified_at,
            checkpoint.size_bytes,
        ),
        "details": _pack_details(checkpoint, path),
        "owner_uids": None if owner_uids == [context.uid] else owner_uids,
        "size_bytes": checkpoint.size_bytes,
        "modified_at": checkpoint.modified_at,
        "state": checkpoint.state,
        "role": checkpoint.role,
        "epoch": checkpoint.epoch,
        "step": checkpoint.step,
        "unsafe": list(checkpoint.unsafe) or None,
        "reason": checkpoint.reason,
    }


def _pack_details(checkpoint: Checkpoint, path: str) -> bytes | None:
    """Return the fields that have no column, without defaults."""
    epoch, step = checkpoint.epoch, checkpoint.step
    numbers = _get_progress(checkpoint)
    progress = tuple(
        [
            number if number is None else _SAME if number == own else _shorten(number)
            for number, own in zip(numbers, (epoch, epoch, step, step), strict=True)
        ]
    )
    plain, level = _get_plain(checkpoint), LEVEL_CODES[checkpoint.level]
    grouping = pack_grouping(checkpoint.grouping, path)
    if not checkpoint.metrics and not checkpoint.parts:
        return _pack_usual(plain, progress, level, grouping)
    parts = [encode_checkpoint(part) for part in checkpoint.parts]
    return _pack(plain, progress, level, grouping, metrics=dict(checkpoint.metrics), parts=parts)


def _pack(plain: Sequence[Any], progress: Sequence[Any], level: int, grouping: Any, **others: Any) -> bytes | None:
    found = dict(zip((*_PLAIN_DETAILS, *_PROGRESS_DETAILS), (*plain, *progress), strict=True))
    found |= {"goal_epoch": _shorten(found["goal_epoch"]), "level": level, "grouping": grouping, **others}
    return pack_details({name: value for name, value in found.items() if value != _DETAIL_DEFAULTS.get(name)})


_pack_usual = functools.lru_cache(maxsize=1024, typed=True)(_pack)  # the checkpoints of a run have most of it alike


def _shorten(number: float | None) -> float | None:
    return int(number) if isinstance(number, float) and number.is_integer() else number


_DETAIL_DEFAULTS: dict[str, Any] = {"metrics": {}, "role_evidence": "", "is_result": False, "level": 0, "parts": []}


class SharedAttempts:
    """Makes equal attempts of many rows one object, because checkpoints take most of the daemon's memory."""

    def __init__(self) -> None:
        self._attempts: dict[tuple[JobKey, int], tuple[JobKey, int]] = {}

    def share(self, key: JobKey, restart_count: int) -> tuple[JobKey, int]:
        name = (key, restart_count)
        return self._attempts.setdefault(name, name)


def checkpoint_from_row(context: RowContext, content: Sequence[Any]) -> Checkpoint:
    """Return the checkpoint of a row from the columns CONTENT_FIELDS, as a database's driver gives them."""
    path, kind, members, details, owners, size_bytes, modified_at, state, role, epoch, step, unsafe, reason = content
    path, written_at = decode_text(path), instant(modified_at)
    assert written_at is not None
    whole_path = PurePosixPath(complete_path(path, context.directory))
    files, identities = unpack_members(members, whole_path.name, written_at, size_bytes)
    shown = _read_details(details)
    if isinstance(epoch, float) and epoch.is_integer():
        epoch = int(epoch)
    same = {"epoch": epoch, "step": step}
    return Checkpoint(
        path=whole_path,
        format=decode_text(kind),
        files=tuple(map(share_text, files)),
        identities=identities,
        owner_uids=_share_uids((context.uid,) if owners is None else tuple(json.loads(owners))),
        size_bytes=size_bytes,
        modified_at=written_at,
        state=_STATES[state],
        role=Role.DATA if role is None else _ROLES[role],
        epoch=epoch,
        step=step,
        unsafe=() if unsafe is None else tuple(json.loads(unsafe)),
        reason=None if reason is None else decode_text(reason),
        grouping=unpack_grouping(shown.grouping, path) if shown.grouping else _NO_GROUPING,
        **shown.fields,
        **{name: same[other] if value == _SAME else value for name, other, value in shown.progress},
    )


def read_level(details: bytes | None) -> Level:
    """Return how thoroughly the checkpoint of a row with these details was checked."""
    level: Level = _read_details(details).fields["level"]
    return level


def read_continuation(details: bytes | None) -> dict[str, Any]:
    """Return what a row says about how the program that wrote the checkpoint was continued, by the fields' names."""
    found = _read_details(details).fields
    return {name: found[name] for name in _CONTINUATION if name in found}


class _Details(NamedTuple):
    """What the details of a row say. Rows share it; nobody changes it."""

    fields: Mapping[str, Any]  # of the checkpoint
    progress: tuple[tuple[str, str, Any], ...]  # more fields, each with the column whose value `_SAME` stands for
    grouping: Sequence[Any] | None


def _read_details(details: bytes | None) -> _Details:
    """Return what details say; many rows have the same short ones, which are read once."""
    is_short = details is None or len(details) <= _SHORT_BYTES
    return _read_short_details(details) if is_short else _parse_details(details)


def _parse_details(details: bytes | None) -> _Details:
    found: Mapping[str, Any] = {} if details is None else unpack_details(details)
    fields: dict[str, Any] = {name: found[name] for name in _PLAIN_DETAILS if name in found}
    fields["level"] = _LEVELS[found.get("level", 0)]
    fields["metrics"] = found.get("metrics", _NO_METRICS)
    fields["role_evidence"] = share_text(found.get("role_evidence", ""))
    fields["parts"] = tuple(decode_checkpoint(part) for part in found.get("parts", ()))
    progress = [(name, other, found[name]) for name, other in _PROGRESS_DETAILS.items() if found.get(name) is not None]
    return _Details(fields, tuple(progress), found.get("grouping"))


_read_short_details = functools.lru_cache(maxsize=1024)(_parse_details)
