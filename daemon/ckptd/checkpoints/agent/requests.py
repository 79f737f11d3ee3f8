"""The requests that the agent accepts: every field of every operation with its type and bounds.

A request says what to do with which path. Commands, limits and allowed roots come from the agent's own policy; a
request that names one is refused, like any request with an unknown field.
"""

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.core.node_scans import node_directories
from ckptd.errors import CkptdError

MAX_ITEMS = 500  # `request_turns` says of which requests
MAX_SECONDS = 86_400.0
MAX_PATH_BYTES = 4096
MAX_NAMES = 1_000_000  # a list in one item, such as the files of one checkpoint
MAX_PLACES = 100_000  # a list of directories in one item
MAX_VARIABLES = 1000  # variables of the site whose values are directories
MAX_JOB_NAMES = 10  # path components that show that a directory belongs to one job
MAX_NAME = 255  # characters of such a name
MAX_RESUMING_JOBS = 100  # of one run
MAX_CANDIDATES = 100  # checkpoints of one run of which it is asked whether they were read
MAX_TEXT = 65_536
TICKET_LENGTH = 16
MAX_TASKS = 1000  # of one verification job
SCAN_ON_NODE = "scan_on_node"
# these change nothing, and are allowed without the lease of the cluster
READING_OPERATIONS = frozenset(
    {
        "collect_digests",
        "collect_verification",
        "digest",
        "find_workspaces",
        "follow_verification",
        "list_known",
        "list_trash",
        "list_unrecorded",
        "locate",
        "look_up",
        "look_up_paths",
        "reach",
        "read_mutes",
        "read_submission",
        "scan",
        "verify",
    }
)
_READ_DIRECTORIES = {"scan": "directory", "locate": "work_dir"}  # the field that names one
_LARGEST_UID = 2**32 - 2  # the next one means "no user" to the kernel

Check = Callable[[Any], bool]


class RequestError(CkptdError):
    """The request is malformed, or asks for something that the agent does not do."""


def check_envelope(request: Any) -> None:
    """Check all fields of a request except its items.

    Raises:
        RequestError: a field is missing, unknown, or out of bounds.

    """
    if not isinstance(request, dict):
        raise RequestError("a request must be an object")
    _check_fields("request", request, _ENVELOPE)
    if request["operation"] not in SHAPES:
        raise RequestError(f"there is no operation {request['operation'][:40]!r}")


def needs_programs(request: Mapping[str, Any], policy: RequestPolicy) -> bool:
    """Return whether a checked request runs programs: those of Slurm, or the site's command for quotas."""
    if request["operation"] in {SCAN_ON_NODE, *_ACTIONS, *_JOB_VERIFICATIONS}:
        return True
    asks = (isinstance(item, dict) and bool(item.get("asks_quota")) for item in request["items"])
    return bool(policy.quota_command) and request["operation"] == "scan" and any(asks)


def list_directories(request: Mapping[str, Any]) -> list[str]:
    """Return the directories that a checked request reads, in the order of its items, which are not checked yet."""
    field = _READ_DIRECTORIES.get(request["operation"])
    named = (item.get(field) for item in request["items"] if field and isinstance(item, dict))
    return [str(each) for each in named if _is_path(each)]


def complete(operation: str, item: Any, policy: RequestPolicy) -> dict[str, Any]:
    """Check one item of a request, and return it with the fields that the policy adds.

    Raises:
        RequestError: a field is missing, unknown, or out of bounds.

    """
    if not isinstance(item, dict):
        raise RequestError(f"{operation}: an item must be an object")
    _check_fields(operation, item, SHAPES[operation])
    completed = {**item, **_read_policy(operation, item, policy)}
    return completed if policy.is_person else {**completed, **_limit_removal(operation, item, policy)}


def _check_fields(what: str, given: Mapping[str, Any], shape: Mapping[str, Check]) -> None:
    if unknown := given.keys() - shape.keys():
        raise RequestError(f"{what}: unknown field {min(map(str, unknown))[:40]!r}")
    for name, check in shape.items():
        if name not in given:
            raise RequestError(f"{what}: field {name!r} is missing")
        if not check(given[name]):
            raise RequestError(f"{what}: field {name!r} has a wrong type or is out of bounds")


def _read_policy(operation: str, item: Mapping[str, Any], policy: RequestPolicy) -> dict[str, Any]:
    """Return the fields that an operation gets from the policy."""
    roots = {"allowed_roots": list(policy.allowed_roots)}
    depths = {
        "write_grace_seconds": policy.write_grace_seconds,
        "max_depth": policy.max_depth,
        "max_entries": policy.max_entries,
    }
    if operation == "scan":
        return {**roots, **depths, "quota_command": list(policy.quota_command) if item["asks_quota"] else []}
    if operation == "find_workspaces":
        return {"databases": list(policy.workspace_databases)}
    if operation == "verify":
        return {**roots, **depths}
    if operation in {*_JOB_VERIFICATIONS, "collect_digests", "collect_verification"}:
        if operation in _SUBMITTING and not policy.verify_jobs.partition:
            raise RequestError("the configuration names no partition for verification jobs")
        return {**roots, **depths, "jobs": asdict(policy.verify_jobs)}
    if operation == SCAN_ON_NODE:
        return {**roots, **depths, "steps": asdict(policy.node_scans)}
    if operation in _ACTIONS:
        return {"partitions": list(_ACTIONS[operation](policy)), "max_resubmits": policy.max_resubmits}
    if operation == "locate":
        discovery = {"discovery_depth": policy.discovery_depth, "discovery_entries": policy.discovery_entries}
        return {**roots, **discovery, "node_directories": list(policy.node_scans.directories)}
    return roots


def _limit_removal(operation: str, item: Mapping[str, Any], policy: RequestPolicy) -> dict[str, Any]:
    """Return the fields that decide what is moved and deleted, limited by the configuration and this clock.

    The main process may be stricter than the configuration, but never laxer. If the configuration, as last read, does
    not allow a move, the answer is "refused": then the main process knows that nothing was moved.
    """
    now = time.time()
    if operation == "move_aside":
        if not policy.may_move:
            return {"refusal": "no retention policy of the configuration enforces removals"}
        if node_directories.is_on_nodes(os.path.normpath(item["directory"]), policy.node_scans.directories):
            return {"refusal": "only the nodes of jobs see its directory"}
        return {"now": now, "origin": {**item["origin"], **_limit_holds(item["origin"], policy)}}
    if "release" not in item:
        return {}
    given = item["release"]
    is_short = given["is_short_of_space"] and policy.no_room_hold_seconds is not None
    hold = policy.no_room_hold_seconds if is_short else policy.hold_seconds
    tolerance = given["clock_tolerance"]
    release = {
        "held_before": min(given["held_before"], now - (hold or 0)),
        "now": now if given["now"] is None else min(given["now"], now),
        "is_short_of_space": given["is_short_of_space"],
        "clock_tolerance": min(
            policy.clock_tolerance_seconds, policy.clock_tolerance_seconds if tolerance is None else tolerance
        ),
    }
    return {"release": release}


def _limit_holds(origin: Mapping[str, Any], policy: RequestPolicy) -> dict[str, float | None]:
    """Return the holds of an entry, never shorter than the configured ones."""
    hold, no_room_hold = origin["hold"], origin["no_room_hold"]
    shortest = policy.no_room_hold_seconds
    return {
        "hold": max(hold or 0, policy.hold_seconds),
        "no_room_hold": None if no_room_hold is None or shortest is None else max(no_room_hold, shortest),
    }


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return _is_whole(value)  # JSON allows whole numbers that no float can hold


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME


def _is_ticket(value: Any) -> bool:
    """Whether a value names a ticket: with any other character, squeue would find other jobs, and scancel end them."""
    return isinstance(value, str) and len(value) == TICKET_LENGTH and set(value) <= set("0123456789abcdef")


def _is_job_id(value: Any) -> bool:
    return _is_whole(value) and 0 < value < 2**32


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_PATH_BYTES and "\0" not in value


def are_owned_paths(value: Any) -> bool:
    """Return whether a value is a list of directories, each with the uid of a user."""
    return isinstance(value, list) and len(value) <= MAX_PLACES and all(map(_is_owned_path, value))


def _is_owned_path(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    path, uid = value
    return _is_path(path) and _is_uid(uid)


def _is_uid(value: Any) -> bool:
    return _is_whole(value) and 0 <= value <= _LARGEST_UID


def _is_known(value: Any) -> bool:
    return isinstance(value, list)


def _is_candidate(value: Any) -> bool:
    """Whether a value is a candidate of a search: where it is named, its primary location, and copies."""
    return isinstance(value, list) and 2 <= len(value) <= MAX_PLACES and all(map(_is_text, value))


def _is_identity(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 5 and all(isinstance(number, int) for number in value)


def _is_origin(value: Any) -> bool:
    """Whether the value has the holds of an entry; its other fields are checked when they are decoded."""
    is_hold = _or_none(lambda hold: _is_number(hold) and hold >= 0)
    return isinstance(value, dict) and all(is_hold(value.get(name, "")) for name in ("hold", "no_room_hold"))


def _is_release(value: Any) -> bool:
    shape = {
        "held_before": _is_number,
        "now": _or_none(_is_number),
        "is_short_of_space": _is_flag,
        "clock_tolerance": _or_none(lambda tolerance: _is_number(tolerance) and tolerance >= 0),
    }
    return isinstance(value, dict) and value.keys() == shape.keys() and all(shape[name](value[name]) for name in shape)


def _is_turn(value: Any) -> bool:
    """Whether the value says where a turn continues, how many entries it may process, and for how many seconds."""
    if not isinstance(value, list) or len(value) != 3:
        return False
    after, limit, seconds = value
    return _or_none(_is_text)(after) and _or_none(_is_whole)(limit) and _or_none(_is_number)(seconds)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check, most: int) -> Check:
    return lambda value: isinstance(value, list) and len(value) <= most and all(map(check, value))


def _is_sized_file(value: Any) -> bool:
    """Whether a value is a file below a directory, with its size."""
    return isinstance(value, list) and len(value) == 2 and _is_path(value[0]) and _is_whole(value[1]) and value[1] >= 0


def _are_wanted_files(value: Any) -> bool:
    """Whether a value is a directory with files in it."""
    is_whole = isinstance(value, dict) and value.keys() == _WANTED_FILES.keys()
    return is_whole and all(check(value[name]) for name, check in _WANTED_FILES.items())


_WANTED_FILES: dict[str, Check] = {"directory": _is_path, "files": _list_of(_is_sized_file, MAX_NAMES)}
_paths = _list_of(_is_path, MAX_PLACES)
_names = _list_of(_is_text, MAX_NAMES)

_ENVELOPE: dict[str, Check] = {
    "id": _is_whole,
    "uid": _is_uid,
    "operation": _is_text,
    "items": lambda value: isinstance(value, list) and 0 < len(value) <= MAX_ITEMS,
    "deadline_seconds": lambda value: _is_number(value) and 0 < value <= MAX_SECONDS,
}

_job: dict[str, Check] = {
    "job_id": _is_job_id,
    "array_job_id": _or_none(_is_job_id),
    "array_task_id": _or_none(lambda value: _is_whole(value) and 0 <= value < 2**32),
    "restart_count": lambda value: _is_whole(value) and value >= 0,
    "is_running": _is_flag,
}
_ACTIONS: dict[str, Callable[[RequestPolicy], tuple[str, ...]]] = {  # by operation: the partitions where it is allowed
    "reach": lambda _policy: (),
    "read_submission": lambda policy: (*policy.signal_partitions, *policy.resubmit_partitions),
    "signal_job": lambda policy: policy.signal_partitions,
    "hold_job": lambda policy: policy.hold_partitions,
    "resubmit_job": lambda policy: policy.resubmit_partitions,
}

_SUBMITTING = frozenset({"submit_digests", "submit_verification"})
_JOB_VERIFICATIONS = _SUBMITTING | {"follow_verification", "cancel_verification"}
_task_numbers = _list_of(lambda value: _is_whole(value) and 0 <= value < MAX_TASKS, MAX_TASKS)
_task: dict[str, Check] = {"ticket": _is_ticket, "task": lambda value: _is_whole(value) and 0 <= value < MAX_TASKS}
_ticket: dict[str, Check] = {"ticket": _is_ticket, "job_id": _or_none(_is_job_id)}

SHAPES: dict[str, dict[str, Check]] = {
    "submit_verification": {
        "directory": _is_path,
        "ticket": _is_ticket,
        "tasks": _list_of(_names, MAX_TASKS),
        "numbers": _task_numbers,
    },
    "follow_verification": {**_ticket, "task_count": lambda value: _is_whole(value) and 0 < value <= MAX_TASKS},
    "collect_verification": _task,
    "collect_digests": _task,
    "submit_digests": {
        "ticket": _is_ticket,
        "tasks": _list_of(_list_of(_are_wanted_files, MAX_NAMES), MAX_TASKS),
        "numbers": _task_numbers,
    },
    "cancel_verification": _ticket,
    "reach": {"work_dir": _is_path},
    "read_submission": _job,
    "signal_job": {**_job, "signal": _is_text},
    "hold_job": _job,
    "resubmit_job": {**_job, "number": _is_whole, "mark": _is_text},
    "locate": {
        "work_dir": _or_none(_is_path),
        "candidates": _list_of(_is_candidate, MAX_PLACES),
        "since_ns": _is_whole,
        "until_ns": _or_none(_is_whole),
        "excluded": _paths,
        "shared": _paths,
        "places": _list_of(_is_path, MAX_VARIABLES),
        "job_names": _list_of(_is_name, MAX_JOB_NAMES),
        "is_role_asked": _is_flag,
    },
    "read_mutes": {"work_dir": _is_path},
    "scan": {
        "directory": _is_path,
        "now": _is_number,
        "asks_quota": _is_flag,
        "work_dirs": _paths,
        "resuming_jobs": _list_of(_is_job_id, MAX_RESUMING_JOBS),
        "candidates": _list_of(_is_path, MAX_CANDIDATES),
        "read_since": _or_none(_is_number),
        "known": _list_of(_is_known, MAX_NAMES),
        "fingerprint": _or_none(_is_name),
        "shares_parser": _is_flag,
    },
    SCAN_ON_NODE: {**_job, "directory": _is_path},
    "find_workspaces": {"directory": _is_path},
    "verify": {"directory": _is_path, "only": _names, "now": _is_number},
    "digest": _WANTED_FILES,
    "look_up_paths": {"paths": _list_of(_is_text, MAX_PLACES), "work_dirs": _paths},
    "move_aside": {
        "act_id": _is_text,
        "directory": _is_path,
        "path": _is_path,
        "files": _names,
        "identities": _list_of(_is_identity, MAX_NAMES),
        "is_directory": _is_flag,
        "uid": _is_whole,
        "reasons": _names,
        "markers": _names,
        "origin": _is_origin,
        "now": _is_number,
    },
    "restore": {"place": _is_path, "act_id": _is_text},
    "empty": {"place": _is_path, "act_ids": _names, "release": _is_release, "turn": _is_turn},
    "recover": {"place": _is_path, "wanted": _names, "turn": _is_turn},
    "list_trash": {"place": _is_path, "known": _names, "is_measured": _is_flag, "turn": _is_turn},
    "list_known": {"place": _is_path, "act_ids": _names},
    "list_unrecorded": {
        "place": _is_path,
        "known": _names,
        "directories": _names,
        "release": _is_release,
        "turn": _is_turn,
    },
    "look_up": {"places": _paths, "act_id": _is_text},
}
