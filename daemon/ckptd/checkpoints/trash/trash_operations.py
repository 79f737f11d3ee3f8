"""Operations of the agent's child on the trash of the user that it has become, with JSON types."""

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import PurePosixPath
from typing import Any

from ckptd.checkpoints.scanning.allowed_roots import is_allowed
from ckptd.checkpoints.scanning.open_files import list_open_files
from ckptd.checkpoints.scanning.tree import TRASH
from ckptd.checkpoints.trash import deletion, entries, entry_recovery, restoration
from ckptd.checkpoints.trash.deletion import ReleaseRule
from ckptd.checkpoints.trash.entries import EntryState, ListedEntries, TrashEntry
from ckptd.checkpoints.trash.entry_limit import TurnLimits
from ckptd.checkpoints.trash.manifest import decode_origin, encode_origin
from ckptd.checkpoints.trash.move_aside import MoveRequest, move_aside
from ckptd.checkpoints.trash.outcome import RefusedError, TrashOutcome, TrashResult
from ckptd.core.fleet.prune_totals import FailureCause
from ckptd.core.model import FileIdentity, RunKey, Unknown


def move(item: dict[str, Any]) -> dict[str, Any]:
    """Move one checkpoint to the trash, unless a process of its owner on this node has it open."""
    if "refusal" in item:
        outcome = _refuse(item, RefusedError(item["refusal"]))
    else:
        outcome = move_aside(decode_request(item), now=_instant(item["now"]), open_files=list_open_files())
    return {"outcomes": [encode_outcome(outcome)]}


def _refuse(item: dict[str, Any], error: RefusedError) -> TrashOutcome:
    return TrashOutcome(
        act_id=item["act_id"],
        result=TrashResult.REFUSED,
        path=item["path"],
        reason=str(error),
        cause=error.cause,
    )


def restore(item: dict[str, Any]) -> dict[str, Any]:
    """Restore one entry of a trash."""
    place = _check_place(item["place"], item)
    return {"outcomes": [encode_outcome(restoration.restore(place, item["act_id"]))]}


def empty(item: dict[str, Any]) -> dict[str, Any]:
    """Delete entries of a trash whose hold has ended, within one turn."""
    release, turn = decode_release(item["release"]), decode_turn(item["turn"])
    outcomes = deletion.empty(_check_place(item["place"], item), item["act_ids"], release, turn=turn)
    return {"outcomes": [encode_outcome(outcome) for outcome in outcomes]}


def list_unrecorded(item: dict[str, Any]) -> dict[str, Any]:
    """List unrecorded entries whose hold has ended."""
    place = PurePosixPath(item["place"])
    found = deletion.UnrecordedEntries()
    if _is_ours(place, item):
        release, turn = decode_release(item["release"]), decode_turn(item["turn"])
        with suppress(RefusedError):
            found = deletion.list_unrecorded(place, set(item["known"]), set(item["directories"]), release, turn)
    return {"act_ids": list(found.act_ids), "reached": found.reached}


def recover(item: dict[str, Any]) -> dict[str, Any]:
    """Complete or undo interrupted operations in a trash; skip a trash of another user."""
    place = PurePosixPath(item["place"])
    if not _is_ours(place, item):
        return {"outcomes": [], "reached": None}
    found = entry_recovery.recover_some(place, item["wanted"], decode_turn(item["turn"]))
    return {"outcomes": [encode_outcome(outcome) for outcome in found.outcomes], "reached": found.reached}


def list_entries(item: dict[str, Any]) -> dict[str, Any]:
    """List the entries of a trash without the known ones, in one turn."""
    place = PurePosixPath(item["place"])
    listed = ListedEntries(())
    if _is_ours(place, item):
        listed = entries.list_others(place, item["known"], decode_turn(item["turn"]), is_measured=item["is_measured"])
    return {
        "entries": [encode_entry(entry) for entry in listed.found if isinstance(entry, TrashEntry)],
        "problems": [[each.what, each.reason] for each in listed.found if isinstance(each, Unknown)],
        "is_whole": listed.is_whole,
    }


def list_known(item: dict[str, Any]) -> dict[str, Any]:
    """List the recorded entries of a trash; none if it cannot be read."""
    place = PurePosixPath(item["place"])
    found = entries.list_known(place, item["act_ids"]) if _is_ours(place, item) else None
    if found is None or isinstance(found, Unknown):
        return {"entries": [], "name_count": 0}
    return {"entries": [encode_entry(entry) for entry in found.entries], "name_count": found.name_count}


def look_up(item: dict[str, Any]) -> dict[str, Any]:
    """Return the state of an entry from the first trash that has it, or None."""
    doubts: list[str] = []
    for place in map(PurePosixPath, item["places"]):
        state = entries.look_up(place, item["act_id"]) if _is_ours(place, item) else None
        if isinstance(state, EntryState):
            return {"state": state.value}
        if isinstance(state, Unknown):
            doubts.append(f"{state.what}: {state.reason}")
    return {"unknown": doubts[0]} if doubts else {"state": None}


def _check_place(place: str, item: dict[str, Any]) -> PurePosixPath:
    """Return a path that may be a trash. It is opened through no link, so that its text says where it is.

    Raises:
        RefusedError: it is none, or in a directory outside the allowed roots.

    """
    path = PurePosixPath(place)
    is_named = path.name == TRASH and path.is_absolute() and ".." not in path.parts
    if not is_named or not is_allowed(str(path.parent), item["allowed_roots"]):
        raise RefusedError(f"{path} is no trash below the site's allowed roots", FailureCause.OUTSIDE)
    return path


def _is_ours(place: PurePosixPath, item: dict[str, Any]) -> bool:
    """Whether there is a trash of this process's user; outside the allowed roots there is none."""
    try:
        _check_place(str(place), item)
    except RefusedError:
        return False
    try:
        return os.stat(place, follow_symlinks=False).st_uid == os.geteuid()
    except FileNotFoundError:
        return False


def encode_request(request: MoveRequest, now: datetime) -> dict[str, Any]:
    """Encode a request as JSON types, without the allowed roots, which the agent adds."""
    return {
        "act_id": request.act_id,
        "directory": str(request.directory),
        "path": str(request.path),
        "files": list(request.files),
        "identities": [list(identity) for identity in request.identities],
        "is_directory": request.is_directory,
        "uid": request.uid,
        "reasons": list(request.reasons),
        "markers": list(request.markers),
        "origin": encode_origin(request.origin),
        "now": now.timestamp(),
    }


def decode_request(item: dict[str, Any]) -> MoveRequest:
    """Decode a request; `allowed_roots` are the agent's own."""
    return MoveRequest(
        act_id=item["act_id"],
        directory=PurePosixPath(item["directory"]),
        path=PurePosixPath(item["path"]),
        files=tuple(item["files"]),
        identities=tuple(FileIdentity(*identity) for identity in item["identities"]),
        is_directory=item["is_directory"],
        uid=item["uid"],
        reasons=tuple(item["reasons"]),
        allowed_roots=tuple(PurePosixPath(os.path.realpath(root)) for root in item["allowed_roots"]),
        markers=tuple(item["markers"]),
        origin=decode_origin(item["origin"]),
    )


def encode_outcome(outcome: TrashOutcome) -> dict[str, Any]:
    """Encode an outcome as JSON types."""
    return {
        "act_id": outcome.act_id,
        "result": outcome.result.value,
        "path": outcome.path,
        "reason": outcome.reason,
        "cause": outcome.cause.value if outcome.cause else None,
        "size_bytes": outcome.size_bytes,
    }


def decode_outcome(data: dict[str, Any]) -> TrashOutcome:
    """Decode an outcome.

    Raises:
        KeyError, TypeError, ValueError: the data is not of `encode_outcome`'s form.

    """
    return TrashOutcome(
        act_id=str(data["act_id"]),
        result=TrashResult(data["result"]),
        path=str(data["path"]),
        reason=None if data["reason"] is None else str(data["reason"]),
        cause=None if data["cause"] is None else FailureCause(data["cause"]),
        size_bytes=int(data["size_bytes"]),
    )


def encode_entry(entry: TrashEntry) -> dict[str, Any]:
    """Encode an entry of a trash as JSON types."""
    return {
        "act_id": entry.act_id,
        "place": str(entry.place),
        "path": entry.path,
        "state": entry.state.value,
        "uid": entry.uid,
        "size_bytes": entry.size_bytes,
        "moved_at": entry.moved_at.timestamp(),
        "reasons": list(entry.reasons),
        "run": list(entry.run),
        "origin": encode_origin(entry.origin),
    }


def decode_entry(data: dict[str, Any]) -> TrashEntry:
    """Decode an entry.

    Raises:
        KeyError, TypeError, ValueError: the data is not of `encode_entry`'s form.

    """
    cluster, uid, directory = data["run"]
    return TrashEntry(
        act_id=str(data["act_id"]),
        place=PurePosixPath(data["place"]),
        path=str(data["path"]),
        state=EntryState(data["state"]),
        uid=int(data["uid"]),
        size_bytes=int(data["size_bytes"]),
        moved_at=_instant(data["moved_at"]),
        reasons=tuple(str(reason) for reason in data["reasons"]),
        run=RunKey(str(cluster), int(uid), str(directory)),
        origin=decode_origin(data["origin"]),
    )


def encode_release(release: ReleaseRule) -> dict[str, Any]:
    """Encode a release as JSON types."""
    tolerance = release.clock_tolerance
    return {
        "held_before": release.held_before.timestamp(),
        "now": None if release.now is None else release.now.timestamp(),
        "is_short_of_space": release.is_short_of_space,
        "clock_tolerance": None if tolerance is None else tolerance.total_seconds(),
    }


def decode_release(item: dict[str, Any]) -> ReleaseRule:
    """Decode a release."""
    tolerance = item["clock_tolerance"]
    return ReleaseRule(
        held_before=_instant(item["held_before"]),
        now=None if item["now"] is None else _instant(item["now"]),
        is_short_of_space=item["is_short_of_space"],
        clock_tolerance=None if tolerance is None else timedelta(seconds=tolerance),
    )


def encode_turn(turn: TurnLimits) -> list[Any]:
    """Encode the limits of a turn as JSON types."""
    return [turn.after, turn.limit, None if turn.seconds == inf else turn.seconds]


def decode_turn(item: list[Any]) -> TurnLimits:
    """Decode the limits of a turn."""
    after, limit, seconds = item
    return TurnLimits(after, limit, inf if seconds is None else seconds)


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)


# by the names of the agent's requests
OPERATIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "move_aside": move,
    "restore": restore,
    "empty": empty,
    "recover": recover,
    "list_trash": list_entries,
    "list_known": list_known,
    "list_unrecorded": list_unrecorded,
    "look_up": look_up,
}
