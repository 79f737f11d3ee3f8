"""The requests that the agent accepts: every field of every operation with its type and bounds.

A request says what to do with which path. Commands, limits and allowed roots come from the agent's own policy; a
request that names one is refused, like any request with an unknown field.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ckptd.checkpoints.agent.field_checks import (
    MAX_NAMES,
    MAX_PLACES,
    WANTED_FILES,
    Check,
    are_paths,
    are_texts,
    are_wanted_files,
    is_candidate,
    is_flag,
    is_identity,
    is_job_id,
    is_known,
    is_name,
    is_number,
    is_origin,
    is_path,
    is_release,
    is_text,
    is_ticket,
    is_turn,
    is_uid,
    is_whole,
    list_of,
    or_none,
)
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.core.node_scans import node_directories
from ckptd.errors import CkptdError

MAX_ITEMS = 500  # `request_turns` says of which requests
MAX_SECONDS = 86_400.0
MAX_VARIABLES = 1000  # variables of the site whose values are directories
MAX_JOB_NAMES = 10  # path components that show that a directory belongs to one job
MAX_RESUMING_JOBS = 100  # of one run
MAX_CANDIDATES = 100  # checkpoints of one run of which it is asked whether they were read
MAX_TASKS = 1000  # of one verification job
MAX_RESULTS = 4  # that one scan takes of a job: its owner can make each take 150 MB of memory and a second of CPU
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
    return [str(each) for each in named if is_path(each)]


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
        quota_command = list(policy.quota_command) if item["asks_quota"] else []
        return {**roots, **depths, "quota_command": quota_command, "results": _find_results(item["results"], policy)}
    if operation == "find_workspaces":
        return {"databases": list(policy.workspace_databases)}
    if operation == "verify":
        return {**roots, **depths}
    if operation in {*_JOB_VERIFICATIONS, "collect_digests", "collect_verification"}:
        if operation in _SUBMITTING and not policy.verify_jobs.partition:
            raise RequestError("the configuration names no partition for verification jobs")
        if operation == "submit_scan" and not policy.verify_jobs.scan_entries:
            raise RequestError("the configuration allows no first scans by jobs")
        return {**roots, **depths, "jobs": asdict(policy.verify_jobs)}
    if operation == SCAN_ON_NODE:
        return {**roots, **depths, "steps": asdict(policy.node_scans)}
    if operation in _ACTIONS:
        return {"partitions": list(_ACTIONS[operation](policy)), "max_resubmits": policy.max_resubmits}
    if operation == "locate":
        discovery = {"discovery_depth": policy.discovery_depth, "discovery_entries": policy.discovery_entries}
        return {**roots, **discovery, "node_directories": list(policy.node_scans.directories)}
    return roots


def _find_results(asked: Mapping[str, Any] | None, policy: RequestPolicy) -> dict[str, Any] | None:
    """Return which results of a job a scan may take, and where jobs leave them."""
    if asked is None or not policy.verify_jobs.scan_entries:
        return None
    return {**asked, "directory": policy.verify_jobs.directory}


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


_ENVELOPE: dict[str, Check] = {
    "id": is_whole,
    "uid": is_uid,
    "operation": is_text,
    "items": lambda value: isinstance(value, list) and 0 < len(value) <= MAX_ITEMS,
    "deadline_seconds": lambda value: is_number(value) and 0 < value <= MAX_SECONDS,
}

_job: dict[str, Check] = {
    "job_id": is_job_id,
    "array_job_id": or_none(is_job_id),
    "array_task_id": or_none(lambda value: is_whole(value) and 0 <= value < 2**32),
    "restart_count": lambda value: is_whole(value) and value >= 0,
    "is_running": is_flag,
}
_ACTIONS: dict[str, Callable[[RequestPolicy], tuple[str, ...]]] = {  # by operation: the partitions where it is allowed
    "reach": lambda _policy: (),
    "read_submission": lambda policy: (*policy.signal_partitions, *policy.resubmit_partitions),
    "signal_job": lambda policy: policy.signal_partitions,
    "hold_job": lambda policy: policy.hold_partitions,
    "resubmit_job": lambda policy: policy.resubmit_partitions,
}

_SUBMITTING = frozenset({"submit_digests", "submit_scan", "submit_verification"})
_JOB_VERIFICATIONS = _SUBMITTING | {"follow_verification", "cancel_verification"}
_task_numbers = list_of(lambda value: is_whole(value) and 0 <= value < MAX_TASKS, MAX_TASKS)
_task: dict[str, Check] = {"ticket": is_ticket, "task": lambda value: is_whole(value) and 0 <= value < MAX_TASKS}
_ticket: dict[str, Check] = {"ticket": is_ticket, "job_id": or_none(is_job_id)}


def _are_results(value: Any) -> bool:
    """Whether a value names a ticket and tasks of it, once each."""
    if not isinstance(value, dict) or value.keys() != {"ticket", "tasks"}:
        return False
    tasks = value["tasks"]
    is_bounded = _task_numbers(tasks) and len(tasks) <= MAX_RESULTS
    return is_ticket(value["ticket"]) and is_bounded and len(set(tasks)) == len(tasks)


SHAPES: dict[str, dict[str, Check]] = {
    "submit_verification": {
        "directory": is_path,
        "ticket": is_ticket,
        "tasks": list_of(are_texts, MAX_TASKS),
        "numbers": _task_numbers,
    },
    "follow_verification": {**_ticket, "task_count": lambda value: is_whole(value) and 0 < value <= MAX_TASKS},
    "collect_verification": _task,
    "collect_digests": _task,
    "submit_digests": {
        "ticket": is_ticket,
        "tasks": list_of(list_of(are_wanted_files, MAX_NAMES), MAX_TASKS),
        "numbers": _task_numbers,
    },
    "submit_scan": {
        "directory": is_path,
        "ticket": is_ticket,
        "task_count": lambda value: is_whole(value) and 0 < value <= MAX_TASKS,
        "numbers": _task_numbers,
    },
    "cancel_verification": _ticket,
    "reach": {"work_dir": is_path},
    "read_submission": _job,
    "signal_job": {**_job, "signal": is_text},
    "hold_job": _job,
    "resubmit_job": {**_job, "number": is_whole, "mark": is_text},
    "locate": {
        "work_dir": or_none(is_path),
        "candidates": list_of(is_candidate, MAX_PLACES),
        "since_ns": is_whole,
        "until_ns": or_none(is_whole),
        "excluded": are_paths,
        "shared": are_paths,
        "places": list_of(is_path, MAX_VARIABLES),
        "job_names": list_of(is_name, MAX_JOB_NAMES),
        "is_role_asked": is_flag,
    },
    "read_mutes": {"work_dir": is_path},
    "scan": {
        "directory": is_path,
        "now": is_number,
        "asks_quota": is_flag,
        "work_dirs": are_paths,
        "resuming_jobs": list_of(is_job_id, MAX_RESUMING_JOBS),
        "candidates": list_of(is_path, MAX_CANDIDATES),
        "read_since": or_none(is_number),
        "known": list_of(is_known, MAX_NAMES),
        "fingerprint": or_none(is_name),
        "shares_parser": is_flag,
        "results": or_none(_are_results),
    },
    SCAN_ON_NODE: {**_job, "directory": is_path},
    "find_workspaces": {"directory": is_path},
    "verify": {"directory": is_path, "only": are_texts, "now": is_number},
    "digest": WANTED_FILES,
    "look_up_paths": {"paths": list_of(is_text, MAX_PLACES), "work_dirs": are_paths},
    "move_aside": {
        "act_id": is_text,
        "directory": is_path,
        "path": is_path,
        "files": are_texts,
        "identities": list_of(is_identity, MAX_NAMES),
        "is_directory": is_flag,
        "uid": is_whole,
        "reasons": are_texts,
        "markers": are_texts,
        "origin": is_origin,
        "now": is_number,
    },
    "restore": {"place": is_path, "act_id": is_text},
    "empty": {"place": is_path, "act_ids": are_texts, "release": is_release, "turn": is_turn},
    "recover": {"place": is_path, "wanted": are_texts, "turn": is_turn},
    "list_trash": {"place": is_path, "known": are_texts, "is_measured": is_flag, "turn": is_turn},
    "list_known": {"place": is_path, "act_ids": are_texts},
    "list_unrecorded": {
        "place": is_path,
        "known": are_texts,
        "directories": are_texts,
        "release": is_release,
        "turn": is_turn,
    },
    "look_up": {"places": are_paths, "act_id": is_text},
}
