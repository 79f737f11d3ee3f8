"""What the agent's child does with the trash of the user that it has become, as JSON's types."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

from ckptd.checkpoints.open_files import list_open_files
from ckptd.checkpoints.trash import hold
from ckptd.checkpoints.trash.aside import Request, move_aside
from ckptd.checkpoints.trash.outcome import Outcome, Result
from ckptd.core.model import FileIdentity, Unknown
from ckptd.core.pruned import Cause


def move(item: dict[str, Any]) -> dict[str, Any]:
    """Move one checkpoint aside, unless a process of its owner on this node has it open."""
    outcome = move_aside(decode_request(item), now=_instant(item["now"]), open_files=list_open_files())
    return {"outcomes": [encode_outcome(outcome)]}


def restore(item: dict[str, Any]) -> dict[str, Any]:
    """Bring one entry of a trash back."""
    return {"outcomes": [encode_outcome(hold.restore(PurePosixPath(item["place"]), item["act_id"]))]}


def empty(item: dict[str, Any]) -> dict[str, Any]:
    """Delete entries of a trash that were moved there before an instant."""
    tolerance = item["clock_tolerance"]
    outcomes = hold.empty(
        PurePosixPath(item["place"]),
        item["act_ids"],
        held_before=_instant(item["held_before"]),
        clock_tolerance=None if tolerance is None else timedelta(seconds=tolerance),
    )
    return {"outcomes": [encode_outcome(outcome) for outcome in outcomes]}


def recover(item: dict[str, Any]) -> dict[str, Any]:
    """Finish or undo what was cut off in a trash. One that is another user's holds nothing of this one's."""
    place = PurePosixPath(item["place"])
    outcomes = hold.recover(place) if _is_ours(place) else ()
    return {"outcomes": [encode_outcome(outcome) for outcome in outcomes]}


def list_entries(item: dict[str, Any]) -> dict[str, Any]:
    """List what a trash holds."""
    place = PurePosixPath(item["place"])
    found = hold.list_trash(place) if _is_ours(place) else ()
    return {
        "entries": [encode_entry(entry) for entry in found if isinstance(entry, hold.Entry)],
        "problems": [[each.what, each.reason] for each in found if isinstance(each, Unknown)],
    }


def look_up(item: dict[str, Any]) -> dict[str, Any]:
    """Say how far an act has come in the first of some trashes that knows it: a state, or None."""
    doubts: list[str] = []
    for place in map(PurePosixPath, item["places"]):
        state = hold.look_up(place, item["act_id"]) if _is_ours(place) else None
        if isinstance(state, hold.EntryState):
            return {"state": state.value}
        if isinstance(state, Unknown):
            doubts.append(f"{state.what}: {state.reason}")
    return {"unknown": doubts[0]} if doubts else {"state": None}


def _is_ours(place: PurePosixPath) -> bool:
    try:
        return os.stat(place, follow_symlinks=False).st_uid == os.geteuid()
    except FileNotFoundError:
        return False


def encode_request(request: Request, now: datetime) -> dict[str, Any]:
    """Turn a request into JSON's types."""
    return {
        "act_id": request.act_id,
        "directory": str(request.directory),
        "path": str(request.path),
        "files": list(request.files),
        "identities": [list(identity) for identity in request.identities],
        "uid": request.uid,
        "reasons": list(request.reasons),
        "allowed_roots": [str(root) for root in request.allowed_roots],
        "markers": list(request.markers),
        "now": now.timestamp(),
    }


def decode_request(item: dict[str, Any]) -> Request:
    """Build the request anew."""
    return Request(
        act_id=item["act_id"],
        directory=PurePosixPath(item["directory"]),
        path=PurePosixPath(item["path"]),
        files=tuple(item["files"]),
        identities=tuple(FileIdentity(*identity) for identity in item["identities"]),
        uid=item["uid"],
        reasons=tuple(item["reasons"]),
        allowed_roots=tuple(PurePosixPath(os.path.realpath(root)) for root in item["allowed_roots"]),
        markers=tuple(item["markers"]),
    )


def encode_outcome(outcome: Outcome) -> dict[str, Any]:
    """Turn an outcome into JSON's types."""
    return {
        "act_id": outcome.act_id,
        "result": outcome.result.value,
        "path": outcome.path,
        "reason": outcome.reason,
        "cause": outcome.cause.value if outcome.cause else None,
        "size_bytes": outcome.size_bytes,
    }


def decode_outcome(data: dict[str, Any]) -> Outcome:
    """Build the outcome anew.

    Raises:
        KeyError, TypeError, ValueError: the data is not what `encode_outcome` makes.

    """
    return Outcome(
        act_id=str(data["act_id"]),
        result=Result(data["result"]),
        path=str(data["path"]),
        reason=None if data["reason"] is None else str(data["reason"]),
        cause=None if data["cause"] is None else Cause(data["cause"]),
        size_bytes=int(data["size_bytes"]),
    )


def encode_entry(entry: hold.Entry) -> dict[str, Any]:
    """Turn an entry of a trash into JSON's types."""
    return {
        "act_id": entry.act_id,
        "place": str(entry.place),
        "path": entry.path,
        "state": entry.state.value,
        "uid": entry.uid,
        "size_bytes": entry.size_bytes,
        "moved_at": entry.moved_at.timestamp(),
        "reasons": list(entry.reasons),
    }


def decode_entry(data: dict[str, Any]) -> hold.Entry:
    """Build the entry anew.

    Raises:
        KeyError, TypeError, ValueError: the data is not what `encode_entry` makes.

    """
    return hold.Entry(
        act_id=str(data["act_id"]),
        place=PurePosixPath(data["place"]),
        path=str(data["path"]),
        state=hold.EntryState(data["state"]),
        uid=int(data["uid"]),
        size_bytes=int(data["size_bytes"]),
        moved_at=_instant(data["moved_at"]),
        reasons=tuple(str(reason) for reason in data["reasons"]),
    )


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)
