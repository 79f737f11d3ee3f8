"""Sends requests about trashes to the agent: verify, move, restore and delete, each as the files' owner."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ckptd.checkpoints.agent.batches import BatchRunner, decode_answer, run_items
from ckptd.checkpoints.trash import (
    WHOLE,
    EntryRecovery,
    EntryState,
    MoveRequest,
    ReleaseRule,
    RequestedEntries,
    TrashEntry,
    TrashOutcome,
    TurnLimits,
    UnrecordedEntries,
    list_places,
    trash_operations,
)
from ckptd.core.model import Checkpoint, RunKey, Unknown, checkpoint_json


class TrashLocation(NamedTuple):
    """One directory that may be a trash, and the uid of its owner."""

    uid: int
    path: PurePosixPath


class TrashListing(NamedTuple):
    """The entries of one trash, and what in it could not be read."""

    entries: tuple[TrashEntry, ...]
    problems: tuple[Unknown, ...]
    is_whole: bool = True  # whether nothing was left for another turn


class TrashRequest(NamedTuple):
    """A request about one trash for one turn, with the ids of actions."""

    place: TrashLocation
    act_ids: Sequence[str] = ()
    turn: TurnLimits = WHOLE


class TrashDeletion(NamedTuple):
    """Entries of one trash to delete in one turn if their hold has ended."""

    place: TrashLocation
    act_ids: Sequence[str]
    release: ReleaseRule
    turn: TurnLimits = WHOLE


class UnrecordedSearch(NamedTuple):
    """One turn through a trash for unrecorded entries of runs in these directories."""

    place: TrashLocation
    known: Collection[str]
    directories: Collection[str]
    release: ReleaseRule
    turn: TurnLimits


def places_of(runs: Iterable[RunKey]) -> list[TrashLocation]:
    """Return the possible trash directories of these runs, without duplicates."""
    found = (TrashLocation(run.uid, place) for run in runs for place in list_places(PurePosixPath(run.directory)))
    return list(dict.fromkeys(found))


def move_aside(
    agent: BatchRunner, requests: Sequence[MoveRequest], now: datetime, deadline: timedelta
) -> list[TrashOutcome | Unknown]:
    """Move checkpoints to the trash, in the given order."""
    items = [(request.uid, trash_operations.encode_request(request, now)) for request in requests]
    return [_one(answer) for answer in _ask_for_outcomes(agent, "move_aside", items, deadline)]


def restore(agent: BatchRunner, place: TrashLocation, act_id: str, deadline: timedelta) -> TrashOutcome | Unknown:
    """Restore one entry of a trash."""
    item = {"place": str(place.path), "act_id": act_id}
    return _one(_ask_for_outcomes(agent, "restore", [(place.uid, item)], deadline)[0])


def empty(
    agent: BatchRunner, deletions: Sequence[TrashDeletion], deadline: timedelta
) -> list[tuple[TrashOutcome, ...] | Unknown]:
    """Delete entries of several trashes; entries that a turn did not reach have no outcome."""
    items = [
        (
            each.place.uid,
            {
                "place": str(each.place.path),
                "act_ids": list(each.act_ids),
                "release": trash_operations.encode_release(each.release),
                "turn": trash_operations.encode_turn(each.turn),
            },
        )
        for each in deletions
    ]
    return _ask_for_outcomes(agent, "empty", items, deadline)


def list_unrecorded(
    agent: BatchRunner, searches: Sequence[UnrecordedSearch], deadline: timedelta
) -> list[UnrecordedEntries | Unknown]:
    """List the entries of several trashes that are not recorded and whose hold has ended."""
    items = [
        (
            each.place.uid,
            {
                "place": str(each.place.path),
                "known": list(each.known),
                "directories": list(each.directories),
                "release": trash_operations.encode_release(each.release),
                "turn": trash_operations.encode_turn(each.turn),
            },
        )
        for each in searches
    ]
    return [decode_answer(answer, _unrecorded) for answer in run_items(agent, "list_unrecorded", items, deadline)]


def recover(agent: BatchRunner, asked: Sequence[TrashRequest], deadline: timedelta) -> list[EntryRecovery | Unknown]:
    """Complete or undo interrupted operations in each trash: the named ones, and one turn of the others."""
    items = [
        (
            each.place.uid,
            {
                "place": str(each.place.path),
                "wanted": list(each.act_ids),
                "turn": trash_operations.encode_turn(each.turn),
            },
        )
        for each in asked
    ]
    return [decode_answer(answer, _recovered) for answer in run_items(agent, "recover", items, deadline)]


def list_trash(
    agent: BatchRunner, places: Sequence[TrashLocation], deadline: timedelta, *, is_measured: bool = False
) -> list[TrashListing | Unknown]:
    """List the entries of each trash; with `is_measured`, with the real sizes of their files."""
    return list_others(agent, [TrashRequest(place) for place in places], deadline, is_measured=is_measured)


def list_others(
    agent: BatchRunner, asked: Sequence[TrashRequest], deadline: timedelta, *, is_measured: bool = False
) -> list[TrashListing | Unknown]:
    """List the entries of each trash, one turn of it, without those of the given actions."""
    items = [
        (
            each.place.uid,
            {
                "place": str(each.place.path),
                "known": list(each.act_ids),
                "is_measured": is_measured,
                "turn": trash_operations.encode_turn(each.turn),
            },
        )
        for each in asked
    ]
    return [decode_answer(answer, _found) for answer in run_items(agent, "list_trash", items, deadline)]


def list_known(
    agent: BatchRunner, asked: Sequence[TrashRequest], deadline: timedelta
) -> list[RequestedEntries | Unknown]:
    """List the entries of these actions in each trash."""
    items = [(each.place.uid, {"place": str(each.place.path), "act_ids": list(each.act_ids)}) for each in asked]
    return [decode_answer(answer, _known) for answer in run_items(agent, "list_known", items, deadline)]


def look_up(agent: BatchRunner, run: RunKey, act_id: str, deadline: timedelta) -> EntryState | Unknown | None:
    """Return the state of an action's entry. None: it is in no trash."""
    places = [str(place) for place in list_places(PurePosixPath(run.directory))]
    items = [(run.uid, {"places": places, "act_id": act_id})]
    (answer,) = run_items(agent, "look_up", items, deadline)
    return decode_answer(answer, _state)


def verify(
    agent: BatchRunner, run: RunKey, checkpoints: Sequence[Checkpoint], now: datetime, deadline: timedelta
) -> tuple[Checkpoint, ...] | Unknown:
    """Read every byte of some of a run's checkpoints; return the result for each of their parts."""
    directory = PurePosixPath(run.directory)
    pieces = [piece for checkpoint in checkpoints for piece in checkpoint.parts or (checkpoint,)]
    item = {
        "directory": run.directory,
        "only": [str(piece.path.relative_to(directory)) for piece in pieces],
        "now": now.timestamp(),
    }
    (answer,) = run_items(agent, "verify", [(run.uid, item)], deadline)
    return decode_answer(answer, _checkpoints)


def _ask_for_outcomes(
    agent: BatchRunner, operation: str, items: Sequence[tuple[int, dict[str, Any]]], deadline: timedelta
) -> list[tuple[TrashOutcome, ...] | Unknown]:
    return [decode_answer(answer, _outcomes) for answer in run_items(agent, operation, items, deadline)]


def _one(answer: tuple[TrashOutcome, ...] | Unknown) -> TrashOutcome | Unknown:
    if isinstance(answer, Unknown):
        return answer
    return answer[0] if len(answer) == 1 else Unknown(what="answer", reason="the child's answer is malformed")


def _outcomes(data: dict[str, Any]) -> tuple[TrashOutcome, ...]:
    return tuple(trash_operations.decode_outcome(each) for each in data["outcomes"])


def _found(data: dict[str, Any]) -> TrashListing:
    return TrashListing(
        entries=tuple(trash_operations.decode_entry(each) for each in data["entries"]),
        problems=tuple(Unknown(what=str(what), reason=str(reason)) for what, reason in data["problems"]),
        is_whole=data["is_whole"] is True,
    )


def _known(data: dict[str, Any]) -> RequestedEntries:
    return RequestedEntries(
        tuple(trash_operations.decode_entry(each) for each in data["entries"]), int(data["name_count"])
    )


def _recovered(data: dict[str, Any]) -> EntryRecovery:
    return EntryRecovery(_outcomes(data), None if data["reached"] is None else str(data["reached"]))


def _unrecorded(data: dict[str, Any]) -> UnrecordedEntries:
    reached = data["reached"]
    return UnrecordedEntries(tuple(str(each) for each in data["act_ids"]), None if reached is None else str(reached))


def _state(data: dict[str, Any]) -> EntryState | None:
    return None if data["state"] is None else EntryState(data["state"])


def _checkpoints(data: dict[str, Any]) -> tuple[Checkpoint, ...]:
    return tuple(checkpoint_json.decode_checkpoint(each) for each in data["checkpoints"])
