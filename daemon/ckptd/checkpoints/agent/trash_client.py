"""Sends requests about trashes to the agent: verify, move, restore and delete, each as the files' owner."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ckptd.checkpoints.agent.scan_client import Agent, LookLimits, decode_answer, run_items
from ckptd.checkpoints.trash import (
    WHOLE,
    Entry,
    EntryState,
    Known,
    Outcome,
    Recovered,
    Release,
    Request,
    Turn,
    Unrecorded,
    list_places,
    operations,
)
from ckptd.core.model import Checkpoint, RunKey, Unknown, checkpoint_json


class Place(NamedTuple):
    """One directory that may be a trash, and the uid of its owner."""

    uid: int
    path: PurePosixPath


class Found(NamedTuple):
    """The entries of one trash, and what in it could not be read."""

    entries: tuple[Entry, ...]
    problems: tuple[Unknown, ...]


class Asked(NamedTuple):
    """A request about one trash for one turn, with the ids of its actions and whether they are recorded."""

    place: Place
    act_ids: Sequence[str] = ()
    turn: Turn = WHOLE


class Deletion(NamedTuple):
    """Entries of one trash to delete in one turn if their hold has ended."""

    place: Place
    act_ids: Sequence[str]
    release: Release
    turn: Turn = WHOLE


class Search(NamedTuple):
    """One turn through a trash for unrecorded entries of runs in these directories."""

    place: Place
    known: Collection[str]
    directories: Collection[str]
    release: Release
    turn: Turn


def places_of(runs: Iterable[RunKey]) -> list[Place]:
    """Return the possible trash directories of these runs, without duplicates."""
    found = (Place(run.uid, place) for run in runs for place in list_places(PurePosixPath(run.directory)))
    return list(dict.fromkeys(found))


def move_aside(
    agent: Agent, requests: Sequence[Request], now: datetime, deadline: timedelta
) -> list[Outcome | Unknown]:
    """Move checkpoints to the trash, in the given order."""
    items = [(request.uid, operations.encode_request(request, now)) for request in requests]
    return [_one(answer) for answer in _ask_for_outcomes(agent, "move_aside", items, deadline)]


def restore(agent: Agent, place: Place, act_id: str, deadline: timedelta) -> Outcome | Unknown:
    """Restore one entry of a trash."""
    item = {"place": str(place.path), "act_id": act_id}
    return _one(_ask_for_outcomes(agent, "restore", [(place.uid, item)], deadline)[0])


def empty(agent: Agent, deletions: Sequence[Deletion], deadline: timedelta) -> list[tuple[Outcome, ...] | Unknown]:
    """Delete entries of several trashes; entries that a turn did not reach have no outcome."""
    items = [
        (
            each.place.uid,
            {
                "place": str(each.place.path),
                "act_ids": list(each.act_ids),
                "release": operations.encode_release(each.release),
                "turn": operations.encode_turn(each.turn),
            },
        )
        for each in deletions
    ]
    return _ask_for_outcomes(agent, "empty", items, deadline)


def list_unrecorded(agent: Agent, searches: Sequence[Search], deadline: timedelta) -> list[Unrecorded | Unknown]:
    """List the entries of several trashes that are not recorded and whose hold has ended."""
    items = [
        (
            each.place.uid,
            {
                "place": str(each.place.path),
                "known": list(each.known),
                "directories": list(each.directories),
                "release": operations.encode_release(each.release),
                "turn": operations.encode_turn(each.turn),
            },
        )
        for each in searches
    ]
    return [decode_answer(answer, _unrecorded) for answer in run_items(agent, "list_unrecorded", items, deadline)]


def recover(agent: Agent, asked: Sequence[Asked], deadline: timedelta) -> list[Recovered | Unknown]:
    """Complete or undo interrupted operations in each trash: the named ones, and one turn of the others."""
    items = [
        (
            each.place.uid,
            {
                "place": str(each.place.path),
                "wanted": list(each.act_ids),
                "turn": operations.encode_turn(each.turn),
            },
        )
        for each in asked
    ]
    return [decode_answer(answer, _recovered) for answer in run_items(agent, "recover", items, deadline)]


def list_trash(
    agent: Agent, places: Sequence[Place], deadline: timedelta, *, is_measured: bool = False
) -> list[Found | Unknown]:
    """List the entries of each trash; with `is_measured`, with the real sizes of their files."""
    items = [(uid, {"place": str(path), "is_measured": is_measured}) for uid, path in places]
    return [decode_answer(answer, _found) for answer in run_items(agent, "list_trash", items, deadline)]


def list_known(agent: Agent, asked: Sequence[Asked], deadline: timedelta) -> list[Known | Unknown]:
    """List the entries of these actions in each trash."""
    items = [(each.place.uid, {"place": str(each.place.path), "act_ids": list(each.act_ids)}) for each in asked]
    return [decode_answer(answer, _known) for answer in run_items(agent, "list_known", items, deadline)]


def look_up(agent: Agent, run: RunKey, act_id: str, deadline: timedelta) -> EntryState | Unknown | None:
    """Return the state of an action's entry. None: it is in no trash."""
    places = [str(place) for place in list_places(PurePosixPath(run.directory))]
    items = [(run.uid, {"places": places, "act_id": act_id})]
    (answer,) = run_items(agent, "look_up", items, deadline)
    return decode_answer(answer, _state)


def verify(
    agent: Agent, run: RunKey, checkpoints: Sequence[Checkpoint], limits: LookLimits, now: datetime, deadline: timedelta
) -> tuple[Checkpoint, ...] | Unknown:
    """Read every byte of some of a run's checkpoints; return the result for each of their parts."""
    directory = PurePosixPath(run.directory)
    pieces = [piece for checkpoint in checkpoints for piece in checkpoint.parts or (checkpoint,)]
    item = {
        "directory": run.directory,
        "only": [str(piece.path.relative_to(directory)) for piece in pieces],
        "now": now.timestamp(),
        "settle_seconds": limits.settle_time.total_seconds(),
        "max_depth": limits.max_depth,
        "max_entries": limits.max_entries,
    }
    (answer,) = run_items(agent, "verify", [(run.uid, item)], deadline)
    return decode_answer(answer, _checkpoints)


def _ask_for_outcomes(
    agent: Agent, operation: str, items: Sequence[tuple[int, dict[str, Any]]], deadline: timedelta
) -> list[tuple[Outcome, ...] | Unknown]:
    return [decode_answer(answer, _outcomes) for answer in run_items(agent, operation, items, deadline)]


def _one(answer: tuple[Outcome, ...] | Unknown) -> Outcome | Unknown:
    if isinstance(answer, Unknown):
        return answer
    return answer[0] if len(answer) == 1 else Unknown(what="answer", reason="the child's answer is malformed")


def _outcomes(data: dict[str, Any]) -> tuple[Outcome, ...]:
    return tuple(operations.decode_outcome(each) for each in data["outcomes"])


def _found(data: dict[str, Any]) -> Found:
    return Found(
        entries=tuple(operations.decode_entry(each) for each in data["entries"]),
        problems=tuple(Unknown(what=str(what), reason=str(reason)) for what, reason in data["problems"]),
    )


def _known(data: dict[str, Any]) -> Known:
    return Known(tuple(operations.decode_entry(each) for each in data["entries"]), int(data["name_count"]))


def _recovered(data: dict[str, Any]) -> Recovered:
    return Recovered(_outcomes(data), None if data["reached"] is None else str(data["reached"]))


def _unrecorded(data: dict[str, Any]) -> Unrecorded:
    reached = data["reached"]
    return Unrecorded(tuple(str(each) for each in data["act_ids"]), None if reached is None else str(reached))


def _state(data: dict[str, Any]) -> EntryState | None:
    return None if data["state"] is None else EntryState(data["state"])


def _checkpoints(data: dict[str, Any]) -> tuple[Checkpoint, ...]:
    return tuple(checkpoint_json.decode_checkpoint(each) for each in data["checkpoints"])
