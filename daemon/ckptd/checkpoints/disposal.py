"""Asks the agent to verify, move aside, bring back and delete, each as its owner, and gives values back."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ckptd.checkpoints import wire
from ckptd.checkpoints.look import Agent, LookLimits, decode_answer, run_items
from ckptd.checkpoints.trash import Entry, EntryState, Outcome, Request, list_places, operations
from ckptd.core.model import Checkpoint, RunKey, Unknown


class Place(NamedTuple):
    """One directory that may be a trash, and whose it would be."""

    uid: int
    path: PurePosixPath


class Found(NamedTuple):
    """What one trash holds, and what in it could not be read."""

    entries: tuple[Entry, ...]
    problems: tuple[Unknown, ...]


def places_of(runs: Iterable[RunKey]) -> list[Place]:
    """Return where the trash of these runs may be, each place once."""
    found = (Place(run.uid, place) for run in runs for place in list_places(PurePosixPath(run.directory)))
    return list(dict.fromkeys(found))


def move_aside(
    agent: Agent, requests: Sequence[Request], now: datetime, deadline: timedelta
) -> list[Outcome | Unknown]:
    """Move checkpoints aside, in the order given."""
    items = [(request.uid, operations.encode_request(request, now)) for request in requests]
    return [_one(answer) for answer in _ask_for_outcomes(agent, "move_aside", items, deadline)]


def restore(agent: Agent, place: Place, act_id: str, deadline: timedelta) -> Outcome | Unknown:
    """Bring one entry of a trash back."""
    item = {"place": str(place.path), "act_id": act_id}
    return _one(_ask_for_outcomes(agent, "restore", [(place.uid, item)], deadline)[0])


def empty(
    agent: Agent,
    place: Place,
    act_ids: Sequence[str],
    held_before: datetime,
    deadline: timedelta,
    *,
    clock_tolerance: timedelta | None = None,
) -> tuple[Outcome, ...] | Unknown:
    """Delete entries of one trash that were moved there before an instant; None: whatever the clocks say."""
    item = {
        "place": str(place.path),
        "act_ids": list(act_ids),
        "held_before": held_before.timestamp(),
        "clock_tolerance": None if clock_tolerance is None else clock_tolerance.total_seconds(),
    }
    return _ask_for_outcomes(agent, "empty", [(place.uid, item)], deadline)[0]


def recover(agent: Agent, places: Sequence[Place], deadline: timedelta) -> list[tuple[Outcome, ...] | Unknown]:
    """Finish or undo what was cut off in each trash."""
    return _ask_for_outcomes(agent, "recover", [(uid, {"place": str(path)}) for uid, path in places], deadline)


def list_trash(agent: Agent, places: Sequence[Place], deadline: timedelta) -> list[Found | Unknown]:
    """List what each trash holds."""
    items = [(uid, {"place": str(path)}) for uid, path in places]
    return [decode_answer(answer, _found) for answer in run_items(agent, "list_trash", items, deadline)]


def look_up(agent: Agent, run: RunKey, act_id: str, deadline: timedelta) -> EntryState | Unknown | None:
    """Say how far an act of a run has come. None: no trash knows it."""
    places = [str(place) for place in list_places(PurePosixPath(run.directory))]
    items = [(run.uid, {"places": places, "act_id": act_id})]
    (answer,) = run_items(agent, "look_up", items, deadline)
    return decode_answer(answer, _state)


def verify(
    agent: Agent, run: RunKey, checkpoints: Sequence[Checkpoint], limits: LookLimits, now: datetime, deadline: timedelta
) -> tuple[Checkpoint, ...] | Unknown:
    """Read every byte of some of a run's checkpoints."""
    directory = PurePosixPath(run.directory)
    item = {
        "directory": run.directory,
        "only": [str(checkpoint.path.relative_to(directory)) for checkpoint in checkpoints],
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
    return answer[0] if len(answer) == 1 else Unknown(what="answer", reason="the child's answer makes no sense")


def _outcomes(data: dict[str, Any]) -> tuple[Outcome, ...]:
    return tuple(operations.decode_outcome(each) for each in data["outcomes"])


def _found(data: dict[str, Any]) -> Found:
    return Found(
        entries=tuple(operations.decode_entry(each) for each in data["entries"]),
        problems=tuple(Unknown(what=str(what), reason=str(reason)) for what, reason in data["problems"]),
    )


def _state(data: dict[str, Any]) -> EntryState | None:
    return None if data["state"] is None else EntryState(data["state"])


def _checkpoints(data: dict[str, Any]) -> tuple[Checkpoint, ...]:
    return tuple(wire.decode_checkpoint(each) for each in data["checkpoints"])
